package operator
import ("testing";"fmt";"time";"sort";"runtime";"syscall";"github.com/refrun/refrun/noise";"github.com/refrun/refrun/fp16")
func cpu() time.Duration { var u syscall.Rusage; syscall.Getrusage(0,&u); return time.Duration(u.Utime.Nano()+u.Stime.Nano()) }
func TestZZ(t *testing.T){
 op,_ := Init(Config{NumLayers:4,BaseChannels:32,InputChannels:3,OutputChannels:3,KernelSize:3,Activation:"gelu",Normalization:"instance",NoiseType:"",NoiseScale:0.2},11)
 x:=input(1,3,32,32); m:=Mode{Precision:fp16.Float32}
 p:=op.Plan(m,1,32,32)
 for _,procs:=range []int{2,1} { runtime.GOMAXPROCS(procs)
 var a,b,ca,cb []float64
 for range 40 { w:=time.Now(); c:=cpu(); p.Forward(p.Result(),x,nil,noise.Time{}); a=append(a,float64(time.Since(w))/1e6); ca=append(ca,float64(cpu()-c)/1e6)
  w=time.Now(); c=cpu(); op.Forward(&Pass{Mode:m},x); b=append(b,float64(time.Since(w))/1e6);cb=append(cb,float64(cpu()-c)/1e6) }
 for _,v:=range [][]float64{a,b,ca,cb}{sort.Float64s(v)}
 fmt.Printf("procs %d: plan wall min %.1f med %.1f p90 %.1f cpu med %.1f; forward wall min %.1f med %.1f p90 %.1f cpu med %.1f\n",procs,a[0],a[20],a[36],ca[20],b[0],b[20],b[36],cb[20]) }
}
