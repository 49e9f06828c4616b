package slo

import (
	"fmt"
	"math"

	"usher.dev/usher/colocation/api"
)

// The rules of all configurations, with the range of each field. Names, types and ranges are Koordinator's
// (apis/configuration/slo_controller_config.go and apis/slo/v1alpha1/nodeslo_types.go). Every field is optional.
// Percentages are of what the name says, and may be above 100 where the rule allows it.

const noLimit = math.MaxInt64

func atLeast(least int64, unit string) whole { return whole{least, noLimit, unit} }

var (
	percent  = whole{0, 100, "percent"}
	factor   = atLeast(0, "percent")
	flag     = whole{0, 1, "0 is off, 1 is on"}
	integer4 = whole{math.MinInt32, math.MaxInt32, "32 bits"}
	amount   = atLeast(0, "0 is no limit")
	model    = atLeast(1, "")
	// scaling is the range of CPU normalization ratios that Koordinator's manager accepts.
	scaling = number{min: 1, max: 5}
)

var colocationStrategy = fields{
	"enable":                         boolean{},
	"metricAggregateDurationSeconds": atLeast(1, "seconds"),
	"metricReportIntervalSeconds":    atLeast(1, "seconds"),
	"metricAggregatePolicy":          fields{"durations": list{duration{}}},
	"metricMemoryCollectPolicy":      choice{"usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"},
	"cpuReclaimThresholdPercent":     factor,
	"cpuCalculatePolicy":             choice{"usage", "maxUsageRequest"},
	"memoryReclaimThresholdPercent":  factor,
	"memoryCalculatePolicy":          choice{"usage", "request", "maxUsageRequest"},
	"degradeTimeMinutes":             atLeast(1, "minutes"),
	"updateTimeThresholdSeconds":     atLeast(1, "seconds"),
	"resourceDiffThreshold":          number{min: 0, max: 1, above: true, unit: "a part of 1"},
	"midReclaimMode":                 choice{"static"},
	"midCPUThresholdPercent":         percent,
	"midMemoryThresholdPercent":      percent,
	"midUnallocatedPercent":          percent,
	"midStaticCPUReservedPercent":    percent,
	"midStaticMemoryReservedPercent": percent,
	"batchCPUThresholdPercent":       factor,
	"batchMemoryThresholdPercent":    factor,
	"extensions":                     dict{free{}}, // of third parties
}

var thresholdStrategy = fields{
	"enable":                                 boolean{},
	"cpuSuppressThresholdPercent":            percent,
	"cpuSuppressMinPercent":                  percent,
	"cpuSuppressPolicy":                      choice{"cpuset", "cfsQuota"},
	"memoryEvictThresholdPercent":            percent,
	"memoryEvictLowerPercent":                percent,
	"memoryAllocatableEvictThresholdPercent": factor,
	"memoryAllocatableEvictLowerPercent":     factor,
	"cpuEvictBESatisfactionUpperPercent":     percent,
	"cpuEvictBESatisfactionLowerPercent":     percent,
	"cpuEvictBEUsageThresholdPercent":        percent,
	"cpuEvictTimeWindowSeconds":              atLeast(1, "seconds"),
	"cpuEvictThresholdPercent":               percent,
	"cpuEvictLowerPercent":                   percent,
	"cpuAllocatableEvictThresholdPercent":    factor,
	"cpuAllocatableEvictLowerPercent":        factor,
	"cpuEvictPolicy":                         choice{"evictByRealLimit", "evictByAllocatable"},
	"evictEnabledPriorityThreshold":          integer4,
	"allocatableEvictPriorityThreshold":      whole{0, 7999, "a pod's priority"},
}

// thresholdPairs: without the lower one, it is two below the upper.
var thresholdPairs = []pair{
	{lower: "memoryEvictLowerPercent", upper: "memoryEvictThresholdPercent", upperDefault: known(70)},
	{lower: "memoryAllocatableEvictLowerPercent", upper: "memoryAllocatableEvictThresholdPercent"},
	{lower: "cpuEvictBESatisfactionLowerPercent", upper: "cpuEvictBESatisfactionUpperPercent"},
	{lower: "cpuEvictLowerPercent", upper: "cpuEvictThresholdPercent"},
	{lower: "cpuAllocatableEvictLowerPercent", upper: "cpuAllocatableEvictThresholdPercent"},
}

var burstStrategy = fields{
	"policy":                     choice{"none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"},
	"cpuBurstPercent":            whole{1, 10000, "percent"},
	"cfsQuotaBurstPercent":       atLeast(100, "percent"),
	"cfsQuotaBurstPeriodSeconds": atLeast(-1, "seconds; -1 is for ever"),
	"sharePoolThresholdPercent":  percent,
}

var systemStrategy = fields{
	"minFreeKbytesFactor":       atLeast(1, "ten-thousandths of the memory"),
	"watermarkScaleFactor":      whole{1, 400, "ten-thousandths of the memory"},
	"memcgReapBackGround":       flag,
	"schedGroupIdentityEnabled": atLeast(0, "0 is off"),
	"schedIdleSaverWmark":       atLeast(0, "nanoseconds"),
	"schedFeatures":             dict{boolean{}},
	"pageCacheLimitEnabled":     flag,
	"totalNetworkBandwidth":     bandwidth{},
}

var cpuQOS = fields{
	"enable":        boolean{},
	"groupIdentity": whole{-1, 2, ""},
	"schedIdle":     flag,
	"coreExpeller":  boolean{},
}

var memoryQOS = fields{
	"enable":                boolean{},
	"minLimitPercent":       percent,
	"lowLimitPercent":       percent,
	"throttlingPercent":     percent,
	"wmarkRatio":            percent,
	"wmarkScalePermill":     whole{1, 1000, "thousandths"},
	"wmarkMinAdj":           whole{-25, 50, "percent"},
	"pageCacheEnable":       boolean{},
	"pageCacheReclaimSync":  boolean{},
	"pageCacheLimitPercent": percent,
	"pageCacheLimitSize":    atLeast(0, "bytes"),
	"priorityEnable":        flag,
	"priority":              whole{0, 12, ""},
	"oomKillGroup":          flag,
}

var resctrlQOS = fields{
	"enable":               boolean{},
	"catRangeStartPercent": percent,
	"catRangeEndPercent":   percent,
	"mbaPercent":           percent,
}

var networkQOS = fields{
	"enable":         boolean{},
	"ingressRequest": share{}, "ingressLimit": share{},
	"egressRequest": share{}, "egressLimit": share{},
}

// ioConfig has the ranges of NodeSLO's schema: the API server would refuse what Koordinator's manager makes of other
// values. Rates are per second, latencies in microseconds.
var ioConfig = fields{
	"readIOPS": amount, "writeIOPS": amount, "readBPS": amount, "writeBPS": amount,
	"ioWeightPercent":    whole{1, 100, "percent"},
	"readLatency":        atLeast(0, "microseconds"),
	"writeLatency":       atLeast(0, "microseconds"),
	"readLatencyPercent": percent, "writeLatencyPercent": percent,
	"enableUserModel": boolean{},
	"modelReadBPS":    model, "modelWriteBPS": model,
	"modelReadSeqIOPS": model, "modelWriteSeqIOPS": model,
	"modelReadRandIOPS": model, "modelWriteRandIOPS": model,
}

var qosClass = fields{
	"cpuQOS": cpuQOS, "memoryQOS": memoryQOS, "resctrlQOS": resctrlQOS, "networkQOS": networkQOS,
	"blkioQOS": fields{
		"enable": boolean{},
		"blocks": list{fields{"name": text{}, "type": choice{"device", "volumegroup", "podvolume"}, "ioCfg": ioConfig}},
	},
}

var qosStrategy = fields{
	"policies": fields{"cpuPolicy": choice{"groupIdentity", "coreSched"}, "netQOSPolicy": choice{"tc", "terway-qos"}},
	"lsrClass": qosClass, "lsClass": qosClass, "beClass": qosClass, "systemClass": qosClass, "cgroupRoot": qosClass,
}

// qosPairs: the last-level cache from start to end.
var qosPairs = []pair{
	cachePair("lsrClass", known(0), known(100)),
	cachePair("lsClass", known(0), known(100)),
	cachePair("beClass", known(0), known(30)),
	cachePair("systemClass", known(0), known(100)),
	cachePair("cgroupRoot", nil, nil),
}

func cachePair(class string, start, end *int64) pair {
	return pair{
		in: []string{class, "resctrlQOS"}, lower: "catRangeStartPercent", upper: "catRangeEndPercent",
		lowerDefault: start, upperDefault: end,
	}
}

func known(n int64) *int64 { return &n }

var hostApplications = fields{
	"applications": list{fields{
		"name":     text{},
		"priority": choice(texts(api.PriorityClasses())),
		"qos":      choice(texts(api.QoSClasses())),
		"cgroupPath": fields{
			"base":      choice{"CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"},
			"parentDir": text{}, "relativePath": text{},
		},
		"strategy": fields{},
	}},
}

var normalizationStrategy = fields{
	"enable":       boolean{},
	"defaultRatio": scaling,
	"ratioModel": dict{fields{
		"baseRatio": scaling, "hyperThreadEnabledRatio": scaling, "turboEnabledRatio": scaling, "hyperThreadTurboEnabledRatio": scaling,
	}},
}

var amplificationStrategy = fields{
	"enable":                     boolean{},
	"resourceAmplificationRatio": ratios{},
}

var nodeSelector = fields{
	"matchLabels":      dict{text{}},
	"matchExpressions": list{fields{"key": text{}, "operator": text{}, "values": list{text{}}}},
}

func texts[T ~string](values []T) (list []string) {
	for _, v := range values {
		list = append(list, fmt.Sprint(v))
	}
	return list
}
