package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// random returns a T with every field set at random, within the contract. A
// field that is added to the vocabulary is filled too, so that conversion
// cannot forget it unnoticed.
func random[T any](r *rand.Rand) T {
	var v T
	fill(r, reflect.ValueOf(&v).Elem())
	return v
}

func fill(r *rand.Rand, v reflect.Value) {
	if special(r, v) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("é-%x", r.Uint32()))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint8: // only inside of []byte; enums are special
		v.SetUint(uint64(r.Uint32()))
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32()))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	case reflect.Float32:
		v.SetFloat(r.Float64())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key)
			fill(r, value)
			v.SetMapIndex(key, value)
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(r, field)
		}
	case reflect.Interface, reflect.Func: // capabilities
	default:
		panic(fmt.Sprintf("cannot fill a %s", v.Type()))
	}
}

// special fills types whose values are not all legal.
func special(r *rand.Rand, v reflect.Value) bool {
	var x any
	switch v.Interface().(type) {
	case time.Time:
		x = decodeTime(r.Int64() - r.Int64())
	case time.Duration: // whole milliseconds cross the wire
		x = time.Duration(r.Int64N(int64(eviction.MaxReliefTime/time.Millisecond))) * time.Millisecond
	case eviction.Threshold:
		x = eviction.Threshold{Amount: r.Int64()}
		if r.IntN(2) == 0 {
			x = eviction.Threshold{Fraction: r.Float32() + 0.001}
		}
	case eviction.Figure:
		x = eviction.Figure{}
		if r.IntN(3) > 0 {
			x = eviction.Some(r.Int64N(5) - 1)
		}
	case eviction.Capability:
		x = eviction.Capability(r.UintN(uint(eviction.CanReclaim) << 1))
	case eviction.View:
		x = one(r, eviction.ViewBefore, eviction.ViewAfterReclaim)
	case eviction.Detail:
		x = one(r, eviction.DetailPod, eviction.DetailContainers)
	case eviction.CandidateScope:
		x = one(r, eviction.AllPods, eviction.RankedPods)
	case eviction.MetricType:
		x = one(r, eviction.Gauge, eviction.Counter)
	case eviction.Layout:
		x = one(r, eviction.LayoutShared, eviction.LayoutImageFs, eviction.LayoutContainerFs)
	case eviction.PodState:
		x = one(r, eviction.PodActive, eviction.PodTerminated, eviction.PodEvicted, eviction.PodDeleted)
	case eviction.ObservationState:
		x = one(r, eviction.Unknown, eviction.Observed, eviction.Absent)
	case eviction.MeasurementState:
		x = one(r, eviction.MeasurementUnknown, eviction.Measured, eviction.NoStats)
	default:
		return false
	}
	v.Set(reflect.ValueOf(x))
	return true
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
