// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

var (
	noHardware = []metal3.HardwareRAIDVolume{}
	noSoftware = []metal3.SoftwareRAIDVolume{}
	mirror     = []metal3.HardwareRAIDVolume{{Level: "1", Name: "root", SizeGibibytes: ptr.To(100)}}
	stripe     = []metal3.HardwareRAIDVolume{{Level: "0", Controller: "c0", PhysicalDisks: []string{"d0", "d1"}}}
	md         = []metal3.SoftwareRAIDVolume{{Level: "1", RootVolume: true}}
	md2        = []metal3.SoftwareRAIDVolume{{Level: "1"}, {Level: "0"}}
)

func layoutOf(hardware []metal3.HardwareRAIDVolume, software []metal3.SoftwareRAIDVolume) *metal3.RAIDConfig {
	return &metal3.RAIDConfig{HardwareRAIDVolumes: hardware, SoftwareRAIDVolumes: software}
}

func hostWith(address string, wanted, saved *metal3.RAIDConfig, last *metal3.Preparation) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{}
	host.Spec.BMC.Address = address
	host.Spec.RAID, host.Status.Provisioning.RAID, host.Status.Record.Preparation = wanted, saved, last
	return host
}

func failed(attempted *metal3.RAIDConfig) *metal3.Preparation {
	return &metal3.Preparation{Phase: metal3.PreparationFailed, RAID: attempted}
}

// stepsOf returns the raid_interface and the steps of a clean, in short.
func stepsOf(clean *Clean) string {
	if clean == nil {
		return ""
	}
	short := map[string]string{"delete_configuration": "delete", "erase_devices_metadata": "erase", "create_configuration": "create"}
	words := []string{clean.RAIDInterface}
	for _, step := range clean.Steps {
		words = append(words, short[step.Step])
	}
	return strings.Join(words, " ")
}

const (
	redfish = "redfish://192.0.2.1/redfish/v1/Systems/1"
	ipmi    = "ipmi://192.0.2.1"
)

// TestRAID follows each change of a layout to its end: the cleans that it takes, and what is
// recorded then.
func TestRAID(t *testing.T) {
	for name, tt := range map[string]struct {
		address       string // redfish if empty
		wanted, saved *metal3.RAIDConfig
		last          *metal3.Preparation
		cleans        []string
		recorded      *metal3.RAIDConfig
		same          bool // nothing differs
		refused       string
	}{
		"nothing wanted":                      {same: true},
		"nothing wanted, in two empty lists":  {wanted: layoutOf(nil, nil), same: true},
		"an empty layout was recorded":        {saved: layoutOf(nil, nil), same: true},
		"hardware":                            {wanted: layoutOf(mirror, nil), cleans: []string{"redfish delete create"}, recorded: layoutOf(mirror, nil)},
		"hardware, made already":              {wanted: layoutOf(mirror, nil), saved: layoutOf(mirror, nil), recorded: layoutOf(mirror, nil), same: true},
		"hardware, another one":               {wanted: layoutOf(stripe, nil), saved: layoutOf(mirror, nil), cleans: []string{"redfish delete create"}, recorded: layoutOf(stripe, nil)},
		"hardware removed":                    {wanted: layoutOf(noHardware, nil), saved: layoutOf(mirror, nil), cleans: []string{"redfish delete"}, recorded: layoutOf(noHardware, nil)},
		"hardware removed, none recorded":     {wanted: layoutOf(noHardware, nil), cleans: []string{"redfish delete"}, recorded: layoutOf(noHardware, nil)},
		"hardware removed, done":              {wanted: layoutOf(noHardware, nil), saved: layoutOf(noHardware, nil), recorded: layoutOf(noHardware, nil), same: true},
		"hardware not asked for any more":     {saved: layoutOf(mirror, nil), recorded: layoutOf(mirror, noSoftware)},
		"hardware kept":                       {saved: layoutOf(mirror, noSoftware), recorded: layoutOf(mirror, noSoftware), same: true},
		"hardware removed without controller": {address: ipmi, wanted: layoutOf(noHardware, nil), recorded: layoutOf(noHardware, nil)},
		"software":                            {wanted: layoutOf(nil, md), cleans: []string{"agent delete erase create"}, recorded: layoutOf(nil, md)},
		"software by IPMI":                    {address: ipmi, wanted: layoutOf(nil, md), cleans: []string{"agent delete erase create"}, recorded: layoutOf(nil, md)},
		"software, made already":              {wanted: layoutOf(nil, md), saved: layoutOf(nil, md), recorded: layoutOf(nil, md), same: true},
		"software, another one":               {wanted: layoutOf(nil, md2), saved: layoutOf(nil, md), cleans: []string{"agent delete erase create"}, recorded: layoutOf(nil, md2)},
		"software removed":                    {wanted: layoutOf(nil, noSoftware), saved: layoutOf(nil, md), cleans: []string{"agent delete erase"}, recorded: layoutOf(nil, noSoftware)},
		"software removed, none recorded":     {wanted: layoutOf(nil, noSoftware), recorded: layoutOf(nil, noSoftware)},
		"software not asked for any more":     {saved: layoutOf(nil, md), cleans: []string{"agent delete erase"}, recorded: layoutOf(nil, noSoftware)},
		"software after a deprovisioning":     {wanted: layoutOf(nil, md), saved: layoutOf(nil, nil), cleans: []string{"agent delete erase create"}, recorded: layoutOf(nil, md)},
		"hardware to software":                {wanted: layoutOf(nil, md), saved: layoutOf(mirror, nil), cleans: []string{"redfish delete", "agent delete erase create"}, recorded: layoutOf(nil, md)},
		"software to hardware":                {wanted: layoutOf(mirror, nil), saved: layoutOf(nil, md), cleans: []string{"agent delete erase", "redfish delete create"}, recorded: layoutOf(mirror, nil)},
		"both removed":                        {wanted: layoutOf(noHardware, noSoftware), saved: layoutOf(mirror, md), cleans: []string{"agent delete erase", "redfish delete"}, recorded: layoutOf(noHardware, noSoftware)},
		"failed, tried again":                 {wanted: layoutOf(mirror, nil), last: failed(layoutOf(mirror, nil)), cleans: []string{"redfish delete create"}, recorded: layoutOf(mirror, nil)},
		"failed, changed back":                {wanted: layoutOf(mirror, nil), saved: layoutOf(mirror, nil), last: failed(layoutOf(stripe, nil)), cleans: []string{"redfish delete create"}, recorded: layoutOf(mirror, nil)},
		"failed, given up":                    {last: failed(layoutOf(nil, md)), cleans: []string{"agent delete erase"}, recorded: layoutOf(nil, noSoftware)},
		"failed, hardware instead":            {wanted: layoutOf(mirror, nil), last: failed(layoutOf(nil, md)), cleans: []string{"agent delete erase", "redfish delete create"}, recorded: layoutOf(mirror, nil)},
		"another clean has failed":            {wanted: layoutOf(mirror, nil), saved: layoutOf(mirror, nil), last: failed(nil), recorded: layoutOf(mirror, nil), same: true},
		"hardware without controller":         {address: ipmi, wanted: layoutOf(mirror, nil), refused: "RAID settings are defined, but the node's driver no-raid does not support RAID"},
		"same name twice":                     {wanted: layoutOf(append(mirror[:1:1], mirror...), nil), refused: "the names(root) of volume[1] and volume[0] are repeated"},
		"disks without controller":            {wanted: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0", PhysicalDisks: []string{"d0"}}}, nil), refused: "'controller' must be specified if 'physicalDisks' are used"},
		"another number of disks":             {wanted: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0", Controller: "c", PhysicalDisks: []string{"d0", "d1"}, NumberOfPhysicalDisks: ptr.To(3)}}, nil), refused: "the numberOfPhysicalDisks[3] is not same as number of items in physicalDisks[2]"},
		"neither size nor disks":              {wanted: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0", NumberOfPhysicalDisks: ptr.To(2)}}, nil), refused: "volume[0] of hardwareRAIDVolumes has neither sizeGibibytes nor physicalDisks"},
		"neither, but recorded already":       {wanted: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0"}}, nil), saved: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0"}}, nil), recorded: layoutOf([]metal3.HardwareRAIDVolume{{Level: "0"}}, nil), same: true},
		"first software volume not mirrored":  {wanted: layoutOf(nil, []metal3.SoftwareRAIDVolume{{Level: "0"}}), saved: layoutOf(mirror, nil), refused: "the level in first volume of software raid must be RAID1"},
	} {
		t.Run(name, func(t *testing.T) {
			address := redfish
			if tt.address != "" {
				address = tt.address
			}
			m := Machine{Host: hostWith(address, tt.wanted, tt.saved, tt.last)}
			if differs := Differ(m); differs == tt.same {
				t.Errorf("it differs: %v", differs)
			}
			var cleans []string
			status := &m.Host.Status
			for {
				clean, err := NextClean(m)
				if tt.refused != "" {
					if err == nil || !strings.HasPrefix(err.Error(), tt.refused) {
						t.Fatalf("refused with %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if clean == nil {
					break
				}
				if cleans = append(cleans, stepsOf(clean)); len(cleans) > 3 {
					t.Fatalf("no end: %v", cleans)
				}
				status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
				Observe(status, nil, cleaning(), metav1.Time{})
				done := manageable()
				for _, disk := range clean.LogicalDisks {
					done.RAIDVolumes = ironic.LevelsOf(string(done.RAIDVolumes), disk.RAIDLevel)
				}
				Observe(status, nil, done, metav1.Time{})
			}
			Arrived(status, m)
			if diff := cmp.Diff(tt.cleans, cleans); diff != "" {
				t.Errorf("cleans (- want, + got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.recorded, status.Provisioning.RAID); diff != "" && !(tt.same && sameLayout(tt.recorded, status.Provisioning.RAID)) {
				t.Errorf("recorded (- want, + got):\n%s", diff)
			}
			if Differ(m) {
				t.Error("it differs still")
			}
		})
	}
}

func manageable() *ironic.Node { return &ironic.Node{UUID: "u", ProvisionState: ironic.Manageable} }

func cleaning() *ironic.Node {
	return &ironic.Node{UUID: "u", ProvisionState: ironic.Cleaning, TargetProvisionState: "manageable", Reservation: "conductor"}
}

// TestRAIDNotMade: Ironic takes it for a success if a task of the BMC fails. It is an error, and
// tried again after the back-off.
func TestRAIDNotMade(t *testing.T) {
	m := Machine{Host: hostWith(redfish, layoutOf(mirror, nil), nil, nil)}
	status := &m.Host.Status
	clean, err := NextClean(m)
	if err != nil {
		t.Fatal(err)
	}
	status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
	Observe(status, nil, cleaning(), metav1.Time{})
	Observe(status, nil, manageable(), metav1.Time{})
	if p := status.Record.Preparation; p.Phase != metal3.PreparationFailed || status.Provisioning.RAID != nil {
		t.Errorf("recorded is %+v, %+v", p, status.Provisioning.RAID)
	}
	if _, err := NextClean(m); err == nil || !strings.Contains(err.Error(), "has made 0 of 1 volumes") {
		t.Errorf("the error is %v", err)
	}
	m.Reported = true
	if clean, err := NextClean(m); err != nil || stepsOf(clean) != "redfish delete create" {
		t.Errorf("tried again: %s, %v", stepsOf(clean), err)
	}
	m.Reported, m.Host.Spec.RAID = false, nil
	if clean, err := NextClean(m); err != nil || clean != nil {
		t.Errorf("given up: %s, %v", stepsOf(clean), err)
	}
}

// TestVolumes has what Ironic may find on a machine after steps that it takes for a success, and whether the layout is there.
func TestVolumes(t *testing.T) {
	two := []metal3.HardwareRAIDVolume{{Level: "1", SizeGibibytes: ptr.To(100)}, {Level: "5", SizeGibibytes: ptr.To(100)}}
	spanned := []metal3.HardwareRAIDVolume{{Level: "5+0", SizeGibibytes: ptr.To(100)}}
	for name, tt := range map[string]struct {
		wanted  *metal3.RAIDConfig
		found   ironic.VolumeLevels
		problem string // its end; empty if the layout is there
	}{
		"made":                                   {layoutOf(mirror, nil), ironic.LevelsOf("1"), ""},
		"made, in another order":                 {layoutOf(two, nil), ironic.LevelsOf("5", "1"), ""},
		"made, and the level in other words":     {layoutOf(mirror, nil), ironic.LevelsOf("1+0"), ""},
		"made, and the level without spans":      {layoutOf(spanned, nil), ironic.LevelsOf("5"), ""},
		"made, and the level is not known":       {layoutOf(mirror, nil), ironic.LevelsOf("?"), ""},
		"made, and the controller makes more":    {layoutOf(mirror, nil), ironic.LevelsOf("0", "1", "0"), ""},
		"made in software":                       {layoutOf(nil, md2), ironic.LevelsOf("1", "0"), ""},
		"none made":                              {layoutOf(mirror, nil), "", "has made 0 of 1 volumes (raid_config): its log says why. If it says that the RAID type of volumes is missing, they are there: then remove spec.raid, which keeps them."},
		"one of two made":                        {layoutOf(two, nil), ironic.LevelsOf("1"), "has made 1 of 2 volumes (raid_config has 1 in all): its log says why"},
		"an old one left, and none made":         {layoutOf(mirror, nil), ironic.LevelsOf("5"), "has made 0 of 1 volumes (raid_config has 1 in all): its log says why"},
		"an old one left, and one of two made":   {layoutOf(two, nil), ironic.LevelsOf("1", "1"), "has made 1 of 2 volumes (raid_config has 2 in all): its log says why"},
		"deleted":                                {layoutOf(noHardware, nil), "", ""},
		"deleted, and the controller makes some": {layoutOf(noHardware, nil), ironic.LevelsOf("0", "0"), ""},
		"deleted, and some of unknown levels":    {layoutOf(noHardware, nil), ironic.LevelsOf("?", "0"), ""},
		"not deleted":                            {layoutOf(noHardware, nil), ironic.LevelsOf("1", "0"), "has not deleted 1 volumes (raid_config): its log says why. To keep them, remove hardwareRAIDVolumes from spec.raid."},
	} {
		t.Run(name, func(t *testing.T) {
			m := Machine{Host: hostWith(redfish, tt.wanted, nil, nil)}
			status := &m.Host.Status
			clean, err := NextClean(m)
			if err != nil {
				t.Fatal(err)
			}
			status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
			Observe(status, nil, cleaning(), metav1.Time{})
			done := manageable()
			done.RAIDVolumes = tt.found
			Observe(status, nil, done, metav1.Time{})
			if tt.problem == "" {
				if diff := cmp.Diff(tt.wanted, status.Provisioning.RAID); diff != "" {
					t.Errorf("recorded (- want, + got):\n%s", diff)
				}
				return
			}
			if _, err := NextClean(m); err == nil || !strings.HasSuffix(err.Error(), "without an error, and "+tt.problem) || status.Provisioning.RAID != nil {
				t.Errorf("the error is %v, and recorded is %+v", err, status.Provisioning.RAID)
			}
			// Whoever wants none of it any more has a host that is prepared.
			m.Host.Spec.RAID = nil
			if clean, err := NextClean(m); err != nil || clean != nil {
				t.Errorf("given up: %s, %v", stepsOf(clean), err)
			}
		})
	}
}

// TestDeprovisioned: hardware volumes outlive a deployment, and software volumes are made anew.
func TestDeprovisioned(t *testing.T) {
	host := hostWith(redfish, layoutOf(nil, md), layoutOf(nil, md), nil)
	Deprovisioned(host)
	if clean, err := NextClean(Machine{Host: host}); err != nil || stepsOf(clean) != "agent delete erase create" {
		t.Errorf("software: %s, %v", stepsOf(clean), err)
	}
	for name, wanted := range map[string]*metal3.RAIDConfig{"left out": nil, "an empty list": layoutOf(nil, []metal3.SoftwareRAIDVolume{})} {
		host = hostWith(redfish, wanted, layoutOf(nil, md), nil)
		Deprovisioned(host)
		if clean, err := NextClean(Machine{Host: host}); err != nil || stepsOf(clean) != "agent delete erase" {
			t.Errorf("software that is not wanted any more, %s: %s, %v", name, stepsOf(clean), err)
		}
	}
	host = hostWith(redfish, layoutOf(mirror, nil), layoutOf(mirror, nil), nil)
	Deprovisioned(host)
	if Differ(Machine{Host: host}) {
		t.Error("hardware volumes are to be made again")
	}
}

func TestLogicalDisks(t *testing.T) {
	for name, tt := range map[string]struct {
		wanted *metal3.RAIDConfig
		hints  *metal3.RootDeviceHints
		want   []ironic.LogicalDisk
	}{
		"hardware": {
			hints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"},
			wanted: layoutOf([]metal3.HardwareRAIDVolume{
				{Level: "1+0", Name: "data", SizeGibibytes: ptr.To(50), Rotational: ptr.To(false), NumberOfPhysicalDisks: ptr.To(4)},
				{Level: "0", Rotational: ptr.To(true), Controller: "c0", PhysicalDisks: []string{"d0"}},
			}, nil),
			want: []ironic.LogicalDisk{
				{SizeGB: 50, RAIDLevel: "1+0", VolumeName: "data", DiskType: "ssd", NumberOfPhysicalDisks: 4},
				{SizeGB: "MAX", RAIDLevel: "0", DiskType: "hdd", Controller: "c0", PhysicalDisks: []string{"d0"}},
			},
		},
		"software, and nothing says what is the root": {
			wanted: layoutOf(nil, []metal3.SoftwareRAIDVolume{{Level: "1"}, {Level: "0"}}),
			want: []ironic.LogicalDisk{
				{SizeGB: "MAX", RAIDLevel: "1", Controller: "software", IsRootVolume: ptr.To(true)},
				{SizeGB: "MAX", RAIDLevel: "0", Controller: "software"},
			},
		},
		"software, and hints say what is the root": {
			wanted: layoutOf(nil, []metal3.SoftwareRAIDVolume{{Level: "1"}}), hints: &metal3.RootDeviceHints{DeviceName: "/dev/md0"},
			want: []ironic.LogicalDisk{{SizeGB: "MAX", RAIDLevel: "1", Controller: "software"}},
		},
		"software": {
			wanted: layoutOf(nil, []metal3.SoftwareRAIDVolume{
				{Level: "1", RootVolume: true, SizeGibibytes: ptr.To(20)},
				{Level: "0", PhysicalDisks: []metal3.RootDeviceHints{{DeviceName: "/dev/sda"}, {SerialNumber: "Y", MinSizeGigabytes: 100}}},
			}),
			want: []ironic.LogicalDisk{
				{SizeGB: 20, RAIDLevel: "1", Controller: "software", IsRootVolume: ptr.To(true)},
				{SizeGB: "MAX", RAIDLevel: "0", Controller: "software",
					PhysicalDisks: []map[string]any{{"name": "s== /dev/sda"}, {"serial": "s== Y", "size": ">= 100"}}},
			},
		},
	} {
		host := hostWith(redfish, tt.wanted, nil, nil)
		host.Spec.RootDeviceHints = tt.hints
		clean, err := NextClean(Machine{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, clean.LogicalDisks); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", name, diff)
		}
	}
}

// TestObserve follows a clean by what Ironic says of the node.
func TestObserve(t *testing.T) {
	node := func(state ironic.ProvisionState, change ...func(*ironic.Node)) *ironic.Node {
		n := &ironic.Node{UUID: "u", ProvisionState: state}
		for _, c := range change {
			c(n)
		}
		return n
	}
	towards := func(target string) func(*ironic.Node) {
		return func(n *ironic.Node) { n.TargetProvisionState = target }
	}
	const requested, running, succeeded, failed = metal3.PreparationRequested, metal3.PreparationRunning, metal3.PreparationSucceeded, metal3.PreparationFailed
	for name, tt := range map[string]struct {
		phase metal3.PreparationPhase
		node  *ironic.Node
		want  metal3.PreparationPhase
	}{
		"not begun":                      {requested, node(ironic.Manageable), requested},
		"begun":                          {requested, node(ironic.Cleaning, towards("manageable")), running},
		"begun, answer lost":             {requested, node(ironic.CleanWait, towards("manageable")), running},
		"somebody cleans":                {requested, node(ironic.Cleaning, towards("available")), requested},
		"failed at once":                 {requested, node(ironic.CleanFail), failed},
		"goes on":                        {running, node(ironic.CleanWait, towards("manageable")), running},
		"held":                           {running, node(ironic.CleanHold, towards("manageable")), running},
		"done":                           {running, node(ironic.Manageable), succeeded},
		"done, still locked":             {running, node(ironic.Manageable, func(n *ironic.Node) { n.Reservation = "conductor" }), running},
		"failed":                         {running, node(ironic.CleanFail), failed},
		"failed, and left by a person":   {running, node(ironic.Manageable, func(n *ironic.Node) { n.LastError = "step failed" }), failed},
		"node is another one":            {running, node(ironic.Manageable, func(n *ironic.Node) { n.UUID = "other" }), failed},
		"node was registered again":      {running, node(ironic.Enroll), failed},
		"cleaned for something else now": {running, node(ironic.Cleaning, towards("available")), failed},
		"has succeeded":                  {succeeded, node(ironic.Cleaning, towards("manageable")), succeeded},
		"has failed":                     {failed, node(ironic.Manageable), failed},
	} {
		status := &metal3.BareMetalHostStatus{Record: metal3.HostRecord{Preparation: &metal3.Preparation{NodeUUID: "u", Phase: tt.phase, RAID: layoutOf(mirror, nil)}}}
		Observe(status, nil, tt.node, metav1.Now())
		if got := status.Record.Preparation.Phase; got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
		ended := tt.phase != tt.want && (tt.want == succeeded || tt.want == failed)
		if (status.Record.Preparation.EndedAt != nil) != ended {
			t.Errorf("%s: ended at %v", name, status.Record.Preparation.EndedAt)
		}
		if made := status.Provisioning.RAID != nil; made != (tt.want == succeeded && tt.phase != succeeded) {
			t.Errorf("%s: the layout is recorded: %v", name, made)
		}
	}
}
