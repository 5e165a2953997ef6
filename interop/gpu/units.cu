// One product of each of a GPU's matrix units, the accumulator given: D = C + A B.
//
// A is M by 32 bytes of k, B is N by 32 bytes of k (k is contiguous in both), C and D are M by 8 (float32, or float16 for
// the names that end in half). mma_*: one warp, M = 16. wgmma_*: one warpgroup, M = 64, B from shared memory; these need
// sm_90a. Block b of the grid computes product b. The fragments' layouts are those of the PTX manual.
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;

#define OPERANDS \
    int w = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, r = 16 * w + g; \
    const u32* ap = a + (blockIdx.x * M + r) * 8 + t; \
    u32 a0 = ap[0], a1 = ap[64], a2 = ap[4], a3 = ap[68];

#define MMA(name, shape, types) \
extern "C" __global__ void mma_##name(const u32* a, const u32* b, const float* c, float* d) { \
    const int M = 16; OPERANDS \
    const u32* bp = b + (blockIdx.x * 8 + g) * 8 + t; \
    u32 b0 = bp[0], b1 = bp[4]; \
    int at = (blockIdx.x * M + r) * 8 + 2 * t; \
    float c0 = c[at], c1 = c[at + 1], c2 = c[at + 64], c3 = c[at + 65]; \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \
    d[at] = c0; d[at + 1] = c1; d[at + 64] = c2; d[at + 65] = c3; \
}

#define MMA_HALF(name, shape, types) \
extern "C" __global__ void mma_##name##_half(const u32* a, const u32* b, const u32* c, u32* d) { \
    const int M = 16; OPERANDS \
    const u32* bp = b + (blockIdx.x * 8 + g) * 8 + t; \
    u32 b0 = bp[0], b1 = bp[4]; \
    int at = (blockIdx.x * M + r) * 4 + t; \
    u32 c0 = c[at], c1 = c[at + 32]; \
    asm volatile("mma.sync.aligned." shape ".row.col.f16." types ".f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};" \
        : "+r"(c0), "+r"(c1) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \
    d[at] = c0; d[at + 32] = c1; \
}

MMA(fp16, "m16n8k16", "f16.f16")
MMA(bf16, "m16n8k16", "bf16.bf16")
MMA(tf32, "m16n8k8", "tf32.tf32")
MMA(e4m3, "m16n8k32", "e4m3.e4m3")
MMA(e5m2, "m16n8k32", "e5m2.e5m2")
MMA_HALF(fp16, "m16n8k16", "f16.f16")

#ifdef WGMMA
// Without a swizzle B lies as two core matrices of 8 rows of 16 bytes, one for each half of k.
#define SHARED \
    __shared__ __align__(128) u32 s[64]; \
    if (threadIdx.x < 64) { int row = threadIdx.x / 8, k = threadIdx.x % 8; s[k / 4 * 32 + row * 4 + k % 4] = b[blockIdx.x * 64 + threadIdx.x]; } \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
    __syncthreads(); \
    u64 desc = ((u64)__cvta_generic_to_shared(s) & 0x3FFFF) >> 4 | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32;

#define BEGIN asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define END asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");

#define WG(name, shape, types, more) \
extern "C" __global__ void wgmma_##name(const u32* a, const u32* b, const float* c, float* d) { \
    const int M = 64; OPERANDS SHARED \
    int at = (blockIdx.x * M + r) * 8 + 2 * t; \
    float c0 = c[at], c1 = c[at + 1], c2 = c[at + 64], c3 = c[at + 65]; \
    BEGIN \
    asm volatile("wgmma.mma_async.sync.aligned." shape ".f32." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1" more ";" \
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc)); \
    END \
    d[at] = c0; d[at + 1] = c1; d[at + 64] = c2; d[at + 65] = c3; \
}

#define WG_HALF(name, shape, types, more) \
extern "C" __global__ void wgmma_##name##_half(const u32* a, const u32* b, const u32* c, u32* d) { \
    const int M = 64; OPERANDS SHARED \
    int at = (blockIdx.x * M + r) * 4 + t; \
    u32 c0 = c[at], c1 = c[at + 32]; \
    BEGIN \
    asm volatile("wgmma.mma_async.sync.aligned." shape ".f16." types " {%0,%1}, {%2,%3,%4,%5}, %6, 1, 1, 1" more ";" \
        : "+r"(c0), "+r"(c1) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc)); \
    END \
    d[at] = c0; d[at + 32] = c1; \
}

WG(fp16, "m64n8k16", "f16.f16", ", 0")
WG(bf16, "m64n8k16", "bf16.bf16", ", 0")
WG(tf32, "m64n8k8", "tf32.tf32", "")
WG(e4m3, "m64n8k32", "e4m3.e4m3", "")
WG(e5m2, "m64n8k32", "e5m2.e5m2", "")
WG_HALF(fp16, "m64n8k16", "f16.f16", ", 0")
WG_HALF(e4m3, "m64n8k32", "e4m3.e4m3", "")
WG_HALF(e5m2, "m64n8k32", "e5m2.e5m2", "")
#endif
