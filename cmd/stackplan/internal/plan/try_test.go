package plan
import ("testing";"fmt")
func TestTry(t *testing.T){
 p,err:=Load(Config{Dir:"/work/main",Patterns:[]string{"./cmd/knot"},Binary:"/tmp/G/knotcur"}); if err!=nil{t.Fatal(err)}
 c,l:=p.place(4096)
 g:=p.graph
 for _,nm:=range []string{"(*Task).park","Yield","(*Loop).handOverSlow","(*Task).endParkSlow","(*Task).beginPark","(*Task).unwind","(*Loop).reportOverrun","(*Loop).prepare","here","(*Loop).pick","Self","(*Waiter).Wake","Go","(*Loop).Start","(*Task).refuseThreadLock","Offload", "(*Mutex).Unlock"} { for _,id:=range g.byName[taskPackage+"."+nm] { fmt.Println(nm,l.length[id],c.reach[id]); if l.length[id]>2500 { for i,s:=range l.steps(g,id) { if i<9 {fmt.Println("     ",s.Takes,s.Function)} } } } }
}
