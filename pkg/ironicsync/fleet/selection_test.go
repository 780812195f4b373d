// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func instance(name string, changes ...func(*api.IronicInstanceSpec)) *api.IronicInstance {
	i := &api.IronicInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.IronicInstanceSpec{Endpoint: "http://" + name + ":6385"}}
	for _, change := range changes {
		change(&i.Spec)
	}
	return i
}

func inNamespaces(s *metav1.LabelSelector) func(*api.IronicInstanceSpec) {
	return func(spec *api.IronicInstanceSpec) { spec.NamespaceSelector = s }
}

func withLabels(s *metav1.LabelSelector) func(*api.IronicInstanceSpec) {
	return func(spec *api.IronicInstanceSpec) { spec.Selector = s }
}

func byDefault(spec *api.IronicInstanceSpec) { spec.Default = true }

// TestChoose: a host is registered where its labels and those of its namespace say, or nowhere if that is not certain.
func TestChoose(t *testing.T) {
	everything := &metav1.LabelSelector{}
	roomB := labels.Set{"room": "b"}
	for name, tt := range map[string]struct {
		instances []*api.IronicInstance
		unusable  []string
		namespace labels.Set
		want      string
		problem   string // what it says
	}{
		"no instance":              {want: ""},
		"no selector":              {instances: []*api.IronicInstance{instance("b")}, namespace: roomB, want: ""},
		"by namespace":             {instances: []*api.IronicInstance{instance("b", inNamespaces(matching("room", "b")))}, namespace: roomB, want: "b"},
		"another namespace":        {instances: []*api.IronicInstance{instance("b", inNamespaces(matching("room", "b")))}, namespace: labels.Set{}, want: ""},
		"by label":                 {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "1")))}, want: "b"},
		"another label":            {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "2")))}, want: ""},
		"both":                     {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "1")), inNamespaces(matching("room", "b")))}, namespace: roomB, want: "b"},
		"only the label":           {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "1")), inNamespaces(matching("room", "b")))}, namespace: labels.Set{}, want: ""},
		"only the namespace":       {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "2")), inNamespaces(matching("room", "b")))}, namespace: roomB, want: ""},
		"empty selector":           {instances: []*api.IronicInstance{instance("b", withLabels(everything))}, want: "b"},
		"empty namespaceSelector":  {instances: []*api.IronicInstance{instance("b", inNamespaces(everything))}, namespace: labels.Set{}, want: "b"},
		"default":                  {instances: []*api.IronicInstance{instance("b", byDefault)}, want: "b"},
		"default, another selects": {instances: []*api.IronicInstance{instance("b", byDefault), instance("c", withLabels(matching("rack", "1")))}, want: "c"},
		"default selects others":   {instances: []*api.IronicInstance{instance("b", byDefault, withLabels(matching("rack", "2")))}, want: "b"},

		"namespace not known":                       {instances: []*api.IronicInstance{instance("b", inNamespaces(matching("room", "b")))}, problem: `the labels of namespace "ns" are not known yet`},
		"namespace not known, of a later one":       {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "1"))), instance("c", inNamespaces(matching("room", "b")))}, problem: "are not known yet"},
		"namespace not known, the label excludes":   {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "2")), inNamespaces(matching("room", "b")))}, want: ""},
		"namespace not known, and does not matter":  {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "1")))}, want: "b"},
		"namespace not known, and default":          {instances: []*api.IronicInstance{instance("b", byDefault), instance("c", inNamespaces(matching("room", "c")))}, problem: "are not known yet"},
		"two select":                                {instances: []*api.IronicInstance{instance("b", withLabels(everything)), instance("c", inNamespaces(everything))}, namespace: labels.Set{}, problem: "the IronicInstances b and c select the host"},
		"two defaults":                              {instances: []*api.IronicInstance{instance("b", byDefault), instance("c", byDefault)}, problem: "b and c"},
		"two defaults, another selects":             {instances: []*api.IronicInstance{instance("b", byDefault), instance("c", byDefault), instance("d", withLabels(everything))}, want: "d"},
		"unusable":                                  {instances: []*api.IronicInstance{instance("b", withLabels(everything))}, unusable: []string{"b"}, problem: `cannot use IronicInstance "b"`},
		"unusable, and of others":                   {instances: []*api.IronicInstance{instance("b", withLabels(matching("rack", "2")))}, unusable: []string{"b"}, want: ""},
		"unusable default":                          {instances: []*api.IronicInstance{instance("b", byDefault)}, unusable: []string{"b"}, problem: `cannot use IronicInstance "b"`},
		"two select, one of them unusable":          {instances: []*api.IronicInstance{instance("b", withLabels(everything)), instance("c", withLabels(everything))}, unusable: []string{"b"}, problem: "b and c"},
		"unusable, namespace not known to be of it": {instances: []*api.IronicInstance{instance("b", inNamespaces(matching("room", "b")))}, unusable: []string{"b"}, problem: "are not known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", Labels: map[string]string{"rack": "1"}}}
			var all []selection
			for _, i := range tt.instances {
				s, err := newSelection(i)
				if err != nil {
					t.Fatal(err)
				}
				for _, unusable := range tt.unusable {
					s.unusable = s.unusable || unusable == i.Name
				}
				all = append(all, s)
			}
			got, problem := choose(all, host, tt.namespace)
			if got != tt.want || (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
				t.Errorf("got %q, %q; want %q, %q", got, problem, tt.want, tt.problem)
			}
			if problem != "" && got != "" {
				t.Errorf("a problem, and all the same %q", got)
			}
		})
	}
}

// TestOwnerOf: a host with a node stays in the Ironic of the node, whatever selects it now.
func TestOwnerOf(t *testing.T) {
	status := func(id, in string, observed bool) metal3.BareMetalHostStatus {
		s := metal3.BareMetalHostStatus{}
		s.Provisioning.ID, s.Record.Ironic, s.Record.Observed = id, in, observed
		return s
	}
	selecting := func(name string, unusable bool) selection {
		s, _ := newSelection(instance(name, withLabels(&metav1.LabelSelector{})))
		s.unusable = unusable
		return s
	}
	usable := &state{synced: true, members: map[string]*Member{"": {}, "b": {}}, selections: []selection{selecting("b", false)}}
	unusable := &state{synced: true, members: map[string]*Member{"": {}}, problems: map[string]*Problem{"b": {}}, selections: []selection{selecting("b", true)}}
	deleted := &state{synced: true, members: map[string]*Member{"": {}, "b": {}}, selections: []selection{selecting("b", true)}}
	unread := &state{members: map[string]*Member{"": {}}}
	for name, tt := range map[string]struct {
		state         *state
		status        metal3.BareMetalHostStatus
		want, problem string
	}{
		"new":                             {usable, status("", "", false), "b", ""},
		"new, of an unusable one":         {unusable, status("", "", false), "", `cannot use IronicInstance "b"`},
		"new, of one that is deleted":     {deleted, status("", "", false), "", `cannot use IronicInstance "b"`},
		"new, nothing is read":            {unread, status("", "", false), "", "have not been read yet"},
		"registered here":                 {usable, status("1", "", true), "", ""},
		"registered here, nothing read":   {unread, status("1", "", true), "", ""},
		"registered there":                {usable, status("1", "b", true), "b", ""},
		"about to be registered there":    {usable, status("1", "b", false), "b", ""},
		"registered there, unusable":      {unusable, status("1", "b", true), "", `cannot use IronicInstance "b"`},
		"registered there, deleted":       {deleted, status("1", "b", true), "b", ""},
		"registered there, nothing read":  {unread, status("1", "b", true), "", "have not been read yet"},
		"registered in a former one":      {usable, status("1", "gone", true), "", `"gone"`},
		"restored, never observed":        {usable, status("1", "", false), "b", ""},
		"without a node, of a former one": {usable, status("", "gone", true), "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Fleet{}
			f.state.Store(tt.state)
			got, problem := f.OwnerOf(&metal3.BareMetalHost{Status: tt.status}, labels.Set{})
			if got != tt.want || (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
				t.Errorf("got %q, %q; want %q, %q", got, problem, tt.want, tt.problem)
			}
		})
	}
}
