package wire

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// enum maps the values of a small enumeration of package eviction, its index, to those of
// the protocol.
type enum[D ~uint8, W ~int32] []W

// encode returns 0, the unspecified value, for a d that is not in the table.
func (e enum[D, W]) encode(d D) W {
	if int(d) < len(e) {
		return e[d]
	}
	return 0
}

// decode returns otherwise, the default that the protocol documents, if w is unspecified or
// comes from a newer peer.
func (e enum[D, W]) decode(w W, otherwise D) D {
	if i := slices.Index(e, w); i >= 0 && w != 0 {
		return D(i)
	}
	return otherwise
}

// read decodes the current field of r.
func (e enum[D, W]) read(r *reader, otherwise D) D { return e.decode(W(int32(r.value)), otherwise) }

var (
	views = enum[eviction.View, pluginv1.View]{
		eviction.ViewBefore:       pluginv1.View_VIEW_BEFORE,
		eviction.ViewAfterReclaim: pluginv1.View_VIEW_AFTER_RECLAIM,
	}
	details = enum[eviction.Detail, pluginv1.Detail]{
		eviction.DetailPod:        pluginv1.Detail_DETAIL_POD,
		eviction.DetailContainers: pluginv1.Detail_DETAIL_CONTAINERS,
	}
	layouts = enum[eviction.Layout, pluginv1.Layout]{
		eviction.LayoutShared:      pluginv1.Layout_LAYOUT_SHARED,
		eviction.LayoutImageFs:     pluginv1.Layout_LAYOUT_IMAGE_FS,
		eviction.LayoutContainerFs: pluginv1.Layout_LAYOUT_CONTAINER_FS,
	}
	scopes = enum[eviction.CandidateScope, pluginv1.CandidateScope]{
		eviction.AllPods:    pluginv1.CandidateScope_CANDIDATE_SCOPE_ALL,
		eviction.RankedPods: pluginv1.CandidateScope_CANDIDATE_SCOPE_RANKED,
	}
	metricTypes = enum[eviction.MetricType, pluginv1.MetricType]{
		eviction.Gauge:   pluginv1.MetricType_METRIC_TYPE_GAUGE,
		eviction.Counter: pluginv1.MetricType_METRIC_TYPE_COUNTER,
	}
	podStates = enum[eviction.PodState, pluginv1.PodState]{
		eviction.PodActive:     pluginv1.PodState_POD_STATE_ACTIVE,
		eviction.PodTerminated: pluginv1.PodState_POD_STATE_TERMINATED,
		eviction.PodEvicted:    pluginv1.PodState_POD_STATE_EVICTED,
		eviction.PodDeleted:    pluginv1.PodState_POD_STATE_DELETED,
	}
	observationStates = enum[eviction.ObservationState, pluginv1.ObservationState]{
		eviction.Unknown:  pluginv1.ObservationState_OBSERVATION_STATE_UNKNOWN,
		eviction.Observed: pluginv1.ObservationState_OBSERVATION_STATE_OBSERVED,
		eviction.Absent:   pluginv1.ObservationState_OBSERVATION_STATE_ABSENT,
	}
	measurementStates = enum[eviction.MeasurementState, pluginv1.MeasurementState]{
		eviction.MeasurementUnknown: pluginv1.MeasurementState_MEASUREMENT_STATE_UNKNOWN,
		eviction.Measured:           pluginv1.MeasurementState_MEASUREMENT_STATE_MEASURED,
		eviction.NoStats:            pluginv1.MeasurementState_MEASUREMENT_STATE_NO_STATS,
	}
)

// capabilities maps the bits of eviction.Capability to their wire values.
var capabilities = []struct {
	bit  eviction.Capability
	wire pluginv1.Capability
}{
	{eviction.CanObserve, pluginv1.Capability_CAPABILITY_OBSERVE},
	{eviction.CanMeasure, pluginv1.Capability_CAPABILITY_MEASURE},
	{eviction.CanWatch, pluginv1.Capability_CAPABILITY_WATCH},
	{eviction.CanRank, pluginv1.Capability_CAPABILITY_RANK},
	{eviction.CanReclaim, pluginv1.Capability_CAPABILITY_RECLAIM},
}

func encodeCapabilities(c eviction.Capability) []pluginv1.Capability {
	var out []pluginv1.Capability
	for _, known := range capabilities {
		if c.Has(known.bit) {
			out = append(out, known.wire)
		}
	}
	return out
}

func decodeCapabilities(list []pluginv1.Capability) eviction.Capability {
	var c eviction.Capability
	for _, known := range capabilities {
		if slices.Contains(list, known.wire) {
			c |= known.bit
		}
	}
	return c
}
