package sample

// directions are the polynomials and the first direction numbers of dimensions 2 to 64,
// 436 numbers: those of S. Joe and F. Kuo, "Constructing Sobol sequences with better
// two-dimensional projections", SIAM J. Sci. Comput. 30, 2635-2654 (2008), from their file
// new-joe-kuo-6.21201, which scipy and PyTorch use too. Spinlock's spaces have up to 17
// dimensions; 64 leave room for others.
//
// Copyright (c) 2008, Frances Y. Kuo and Stephen Joe. All rights reserved.
//
// Redistribution and use in source and binary forms, with or without modification, are
// permitted provided that the following conditions are met:
//
//   - Redistributions of source code must retain the above copyright notice, this list
//     of conditions and the following disclaimer.
//   - Redistributions in binary form must reproduce the above copyright notice, this list
//     of conditions and the following disclaimer in the documentation and/or other
//     materials provided with the distribution.
//   - Neither the names of the copyright holders nor the names of the University of New
//     South Wales and the University of Waikato and its contributors may be used to
//     endorse or promote products derived from this software without specific prior
//     written permission.
//
// This software is provided by the copyright holders "as is" and any express or implied
// warranties, including, but not limited to, the implied warranties of merchantability
// and fitness for a particular purpose are disclaimed. In no event shall the copyright
// holders be liable for any direct, indirect, incidental, special, exemplary, or
// consequential damages (including, but not limited to, procurement of substitute goods
// or services; loss of use, data, or profits; or business interruption) however caused
// and on any theory of liability, whether in contract, strict liability, or tort
// (including negligence or otherwise) arising in any way out of the use of this software,
// even if advised of the possibility of such damage.
var directions = [...]struct {
	polynomial uint32 // over two elements: bit k is the coefficient of x^k
	first      []uint32
}{
	{3, []uint32{1}},
	{7, []uint32{1, 3}},
	{11, []uint32{1, 3, 1}},
	{13, []uint32{1, 1, 1}},
	{19, []uint32{1, 1, 3, 3}},
	{25, []uint32{1, 3, 5, 13}},
	{37, []uint32{1, 1, 5, 5, 17}},
	{41, []uint32{1, 1, 5, 5, 5}},
	{47, []uint32{1, 1, 7, 11, 19}},
	{55, []uint32{1, 1, 5, 1, 1}},
	{59, []uint32{1, 1, 1, 3, 11}},
	{61, []uint32{1, 3, 5, 5, 31}},
	{67, []uint32{1, 3, 3, 9, 7, 49}},
	{91, []uint32{1, 1, 1, 15, 21, 21}},
	{97, []uint32{1, 3, 1, 13, 27, 49}},
	{103, []uint32{1, 1, 1, 15, 7, 5}},
	{109, []uint32{1, 3, 1, 15, 13, 25}},
	{115, []uint32{1, 1, 5, 5, 19, 61}},
	{131, []uint32{1, 3, 7, 11, 23, 15, 103}},
	{137, []uint32{1, 3, 7, 13, 13, 15, 69}},
	{143, []uint32{1, 1, 3, 13, 7, 35, 63}},
	{145, []uint32{1, 3, 5, 9, 1, 25, 53}},
	{157, []uint32{1, 3, 1, 13, 9, 35, 107}},
	{167, []uint32{1, 3, 1, 5, 27, 61, 31}},
	{171, []uint32{1, 1, 5, 11, 19, 41, 61}},
	{185, []uint32{1, 3, 5, 3, 3, 13, 69}},
	{191, []uint32{1, 1, 7, 13, 1, 19, 1}},
	{193, []uint32{1, 3, 7, 5, 13, 19, 59}},
	{203, []uint32{1, 1, 3, 9, 25, 29, 41}},
	{211, []uint32{1, 3, 5, 13, 23, 1, 55}},
	{213, []uint32{1, 3, 7, 3, 13, 59, 17}},
	{229, []uint32{1, 3, 1, 3, 5, 53, 69}},
	{239, []uint32{1, 1, 5, 5, 23, 33, 13}},
	{241, []uint32{1, 1, 7, 7, 1, 61, 123}},
	{247, []uint32{1, 1, 7, 9, 13, 61, 49}},
	{253, []uint32{1, 3, 3, 5, 3, 55, 33}},
	{285, []uint32{1, 3, 1, 15, 31, 13, 49, 245}},
	{299, []uint32{1, 3, 5, 15, 31, 59, 63, 97}},
	{301, []uint32{1, 3, 1, 11, 11, 11, 77, 249}},
	{333, []uint32{1, 3, 1, 11, 27, 43, 71, 9}},
	{351, []uint32{1, 1, 7, 15, 21, 11, 81, 45}},
	{355, []uint32{1, 3, 7, 3, 25, 31, 65, 79}},
	{357, []uint32{1, 3, 1, 1, 19, 11, 3, 205}},
	{361, []uint32{1, 1, 5, 9, 19, 21, 29, 157}},
	{369, []uint32{1, 3, 7, 11, 1, 33, 89, 185}},
	{391, []uint32{1, 3, 3, 3, 15, 9, 79, 71}},
	{397, []uint32{1, 3, 7, 11, 15, 39, 119, 27}},
	{425, []uint32{1, 1, 3, 1, 11, 31, 97, 225}},
	{451, []uint32{1, 1, 1, 3, 23, 43, 57, 177}},
	{463, []uint32{1, 3, 7, 7, 17, 17, 37, 71}},
	{487, []uint32{1, 3, 1, 5, 27, 63, 123, 213}},
	{501, []uint32{1, 1, 3, 5, 11, 43, 53, 133}},
	{529, []uint32{1, 3, 5, 5, 29, 17, 47, 173, 479}},
	{539, []uint32{1, 3, 3, 11, 3, 1, 109, 9, 69}},
	{545, []uint32{1, 1, 1, 5, 17, 39, 23, 5, 343}},
	{557, []uint32{1, 3, 1, 5, 25, 15, 31, 103, 499}},
	{563, []uint32{1, 1, 1, 11, 11, 17, 63, 105, 183}},
	{601, []uint32{1, 1, 5, 11, 9, 29, 97, 231, 363}},
	{607, []uint32{1, 1, 5, 15, 19, 45, 41, 7, 383}},
	{617, []uint32{1, 3, 7, 7, 31, 19, 83, 137, 221}},
	{623, []uint32{1, 1, 1, 3, 23, 15, 111, 223, 83}},
	{631, []uint32{1, 1, 5, 13, 31, 15, 55, 25, 161}},
	{637, []uint32{1, 1, 3, 13, 25, 47, 39, 87, 257}},
}
