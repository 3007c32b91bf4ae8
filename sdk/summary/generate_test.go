package summary

import (
	"bytes"
	"fmt"
)

// generate writes a summary as a kubelet of a node with this many pods does: most
// of it is of no interest here.
func generate(pods int) []byte {
	const at = `"2026-03-01T12:00:09Z"`
	fs := func(b *bytes.Buffer, used, inodes int) {
		fmt.Fprintf(b, `"time":%s,"availableBytes":64424509440,"capacityBytes":107374182400,"usedBytes":%d,"inodesFree":900000,"inodes":1000000,"inodesUsed":%d`, at, used, inodes)
	}
	psi := `"psi":{"full":{"total":0,"avg10":0,"avg60":0.01,"avg300":0},"some":{"total":12,"avg10":0,"avg60":0,"avg300":1.5e-3}}`
	cpu := `"cpu":{"time":` + at + `,"usageNanoCores":1234567,"usageCoreNanoSeconds":98765432100,` + psi + `}`
	memory := func(b *bytes.Buffer, use int) {
		fmt.Fprintf(b, `"memory":{"time":%s,"availableBytes":%d,"usageBytes":%d,"workingSetBytes":%d,"rssBytes":%d,"pageFaults":4711,"majorPageFaults":3,%s}`, at, 1<<33-use, use+4096, use, use-4096, psi)
	}
	var b bytes.Buffer
	b.WriteString(`{"node":{"nodeName":"node-1","systemContainers":[{"name":"kubelet","startTime":` + at + `,` + cpu + `,`)
	memory(&b, 80<<20)
	b.WriteString(`},{"name":"pods","startTime":` + at + `,` + cpu + `,`)
	memory(&b, 2<<30)
	b.WriteString(`}],"startTime":` + at + `,` + cpu + `,`)
	memory(&b, 3<<30)
	b.WriteString(`,"network":{"time":` + at + `,"name":"eth0","rxBytes":1,"rxErrors":0,"interfaces":[{"name":"eth0","rxBytes":1}]},"fs":{`)
	fs(&b, 40<<30, 100000)
	b.WriteString(`},"runtime":{"imageFs":{`)
	fs(&b, 30<<30, 90000)
	b.WriteString(`},"containerFs":{`)
	fs(&b, 20<<30, 80000)
	b.WriteString(`}},"rlimit":{"time":` + at + `,"maxpid":32768,"curproc":2768}},"pods":[`)
	for i := range pods {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"podRef":{"name":"web-%d","namespace":"team-%d","uid":"11111111-2222-3333-4444-%012d"},"startTime":%s,"containers":[{"name":"main","startTime":%s,%s,`, i, i%20, i, at, at, cpu)
		memory(&b, 100<<20+i<<12)
		b.WriteString(`,"rootfs":{`)
		fs(&b, i<<16, i)
		b.WriteString(`},"logs":{`)
		fs(&b, i<<14, 1)
		b.WriteString(`},"swap":{"time":` + at + `,"swapUsageBytes":0}}],` + cpu + `,`)
		memory(&b, 101<<20+i<<12)
		b.WriteString(`,"volume":[{`)
		fs(&b, i<<10, i)
		b.WriteString(`,"name":"cache"},{`)
		fs(&b, 12288, 9)
		fmt.Fprintf(&b, `,"name":"kube-api-access-%05d"}],"ephemeral-storage":{`, i)
		fs(&b, i<<17, 2*i)
		fmt.Fprintf(&b, `},"process_stats":{"process_count":%d},"swap":{"time":%s,"swapUsageBytes":0}}`, i%40, at)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
