// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const runbook = "https://github.com/metal3-io/metal3-apiserver/blob/main/docs/monitoring.md#"

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleFile returns the alerts, and the path of a file with them as Prometheus reads it.
func ruleFile(t *testing.T) (alerts []alert, path string) {
	t.Helper()
	var object struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(readDoc(t, "monitoring/prometheusrule.yaml")), &object); err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(content, &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		alerts = append(alerts, group.Rules...)
	}
	path = filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return alerts, path
}

// promtool runs promtool, and returns what it says.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := os.Stat("../bin/promtool"); err != nil {
		skipWithout(t, "%v: get it with hack/tools/prometheus.sh", err)
	}
	out, err := exec.CommandContext(t.Context(), "../bin/promtool", args...).CombinedOutput()
	return string(out), err
}

// TestMonitoringManifests checks that kubectl renders the kustomization, and that the ServiceMonitor
// selects the Service of every installation.
func TestMonitoringManifests(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		var monitor struct {
			Spec struct {
				Selector  metav1.LabelSelector `json:"selector"`
				Endpoints []struct {
					Port      string `json:"port"`
					TLSConfig struct {
						ServerName string `json:"serverName"`
					} `json:"tlsConfig"`
				} `json:"endpoints"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(readDoc(t, "monitoring/servicemonitor.yaml")), &monitor); err != nil {
			t.Fatal(err)
		}
		service := named[*corev1.Service](objs, name)
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(service.Labels)) {
			t.Errorf("the ServiceMonitor selects %v, the Service has %v (%v)", selector, service.Labels, err)
		}
		if e := monitor.Spec.Endpoints; len(e) != 1 || e[0].Port != service.Spec.Ports[0].Name || e[0].TLSConfig.ServerName != host {
			t.Errorf("the endpoints are %+v", e)
		}
	})
	out, err := exec.CommandContext(t.Context(), "../bin/kubectl", "kustomize", "monitoring").CombinedOutput()
	if err != nil || strings.Contains(string(out), "# Warning") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"kind: ServiceMonitor", "kind: PrometheusRule", "kind: ClusterRole", `grafana_dashboard: "1"`, "name: metal3-apiserver-dashboard\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("kubectl kustomize does not render %q", want)
		}
	}
}

// TestAlertsHaveRunbooks checks that each alert says what is wrong, and that docs/monitoring.md
// says what to do about it, and about no alert that does not exist.
func TestAlertsHaveRunbooks(t *testing.T) {
	alerts, _ := ruleFile(t)
	documented := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^### (Metal3\w+)$`).FindAllStringSubmatch(readDoc(t, "../docs/monitoring.md"), -1) {
		documented[match[1]] = true
	}
	for _, a := range alerts {
		if !documented[a.Alert] {
			t.Errorf("docs/monitoring.md has no section %s", a.Alert)
		}
		delete(documented, a.Alert)
		if want := runbook + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s lacks a summary, a description or a severity", a.Alert)
		}
	}
	for name := range documented {
		t.Errorf("docs/monitoring.md has a section about %s, which is no alert", name)
	}
}

var (
	// metricInQuery is the name of a metric where it is followed by labels, a range or an operator.
	metricInQuery = regexp.MustCompile(`\b((?:metal3|leader_election|workqueue|apiserver)_[a-z0-9_]+)`)
	labelsInQuery = regexp.MustCompile(`\b(metal3_[a-z0-9_]+)\{([^}]*)\}`)
	suffix        = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// checkQuery checks that docs/reference/metrics.md or docs/monitoring.md lists the metrics and labels of a query.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	own, others := documentedMetrics(t), documentedOtherMetrics(t)
	base := func(name string) string {
		if trimmed := suffix.ReplaceAllString(name, ""); own[trimmed].Type == "histogram" || others[trimmed] {
			return trimmed
		}
		return name
	}
	for _, match := range metricInQuery.FindAllStringSubmatch(query, -1) {
		if name := base(match[1]); own[name].Type == "" && !others[name] {
			t.Errorf("%s: neither docs/reference/metrics.md nor docs/monitoring.md lists %s", where, name)
		}
	}
	for _, match := range labelsInQuery.FindAllStringSubmatch(query, -1) {
		known := append(strings.Split(own[base(match[1])].Labels, ", "), "namespace", "job", "le")
		for _, matcher := range strings.Split(match[2], ",") {
			label := regexp.MustCompile(`^\s*(\w+)`).FindString(matcher)
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(known, label) {
				t.Errorf("%s: %s has no label %s", where, match[1], label)
			}
		}
	}
}

func TestAlertsUseDocumentedMetrics(t *testing.T) {
	alerts, _ := ruleFile(t)
	for _, a := range alerts {
		checkQuery(t, a.Alert, a.Expr)
	}
}

// TestAlertsFire checks with promtool that each alert fires when it should, and not before.
func TestAlertsFire(t *testing.T) {
	alerts, rules := ruleFile(t)
	if out, err := promtool(t, "check", "rules", rules); err != nil {
		t.Fatal(err, out)
	}
	var tests []map[string]any
	tested := map[string]bool{}
	for _, tt := range alertTests {
		tested[tt.alert] = true
		var series []map[string]any
		for _, s := range tt.series {
			labels, values, _ := strings.Cut(s, "} ")
			series = append(series, map[string]any{"series": labels + "}", "values": values})
		}
		var checks []map[string]any
		check := func(at string, firing int) {
			samples := []map[string]any{}
			if firing > 0 {
				samples = append(samples, map[string]any{"labels": fmt.Sprintf(`{alertname=%q}`, tt.alert), "value": firing})
			}
			checks = append(checks, map[string]any{
				"expr":      fmt.Sprintf(`count by (alertname) (ALERTS{alertstate="firing", alertname=%q})`, tt.alert),
				"eval_time": at, "exp_samples": samples,
			})
		}
		for _, at := range tt.quiet {
			check(at, 0)
		}
		if tt.fires != "" {
			check(tt.fires, 1)
		}
		tests = append(tests, map[string]any{"name": tt.alert, "interval": "1m", "input_series": series, "promql_expr_test": checks})
	}
	for _, a := range alerts {
		if !tested[a.Alert] {
			t.Errorf("alert %s is not tested", a.Alert)
		}
	}
	content, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "test", "rules", path); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// alertTests are series with one value for each minute, and when an alert fires then.
var alertTests = []struct {
	alert  string
	series []string
	quiet  []string // when the alert does not fire
	fires  string   // when it does; empty if never
}{
	{"Metal3ApiserverDown", []string{`up{job="metal3-apiserver",namespace="m",pod="a"} 1x5 0x20`, `up{job="metal3-apiserver",namespace="m",pod="b"} 1x5 0x4 1x4 0x20`}, []string{"5m", "9m", "15m"}, "21m"},
	{"Metal3NoLeader", []string{scraped("a", "1x40"), scraped("b", "1x40"), leads("a", "1x5 0x20"), leads("b", "0x6 1x3 0x20"), slots("a", "", "20x5 stale"), slots("b", "", "_x6 20x2 stale")}, []string{"5m", "7m", "10m"}, "13m"},
	{"Metal3NoLeader", []string{scraped("a", "1x40"), scraped("b", "1x40"), leads("a", "1x5 0x1 1x40"), leads("b", "0x5 1x1 0x40"), slots("a", "", "0x5 stale")}, []string{"5m", "7m"}, "9m"}, // each leads for a minute, and cannot begin
	{"Metal3NoLeader", []string{scraped("a", "1x40"), slots("a", "", "20x20 stale")}, []string{"5m", "22m"}, "24m"},                                                                           // the only replica, without leader election
	{"Metal3NoLeader", []string{scraped("a", "1x40"), slots("a", "", "20x40")}, []string{"5m", "40m"}, ""},
	{"Metal3NoLeader", []string{scraped("a", "1x10 0x30"), scraped("b", "1x40"), leads("a", "1x10 _x30"), leads("b", "0x11 1x30"), // another replica leads, and has to read all hosts first
		slots("a", "", "0x10 stale"), slots("a", "room-b", "20x10 stale"), slots("b", "", "_x12 0x30"), slots("b", "room-b", "_x12 20x30")}, []string{"5m", "11m", "13m", "40m"}, ""},
	{"Metal3NoLeader", []string{scraped("a", "1x5 0x40"), leads("a", "1x5 _x40"), slots("a", "", "20x5 stale")}, []string{"5m", "40m"}, ""}, // it is down
	{"Metal3SeveralLeaders", []string{leads("a", "1x20"), leads("b", "0x5 1x20")}, []string{"5m", "7m"}, "9m"},
	{"Metal3IronicNotObserved", []string{observed("a", "1 2 1 20x30"), observed("b", "60+60x40")}, []string{"3m", "20m"}, ""},
	{"Metal3IronicNotObserved", []string{observed("a", "1 61 121 181 241 301"), observed("b", "-1x10")}, []string{"2m"}, "4m"},
	{"Metal3IronicNotObserved", []string{observed("a", "-1x10"), observed("b", "-1x10")}, []string{"0m"}, "2m"},
	{"Metal3IronicNotObserved", []string{observed("a", "1x10"), observedOf("room-b", "a", "1 61 121 181 241 301")}, []string{"2m"}, "4m"},
	{"Metal3IronicNotObserved", []string{observed("a", "1x60"), observed("b", "-1x60"), // the IronicInstance cannot be used from the fifth minute to the 20th
		observedOf("room-b", "a", "1x5 -1x15 1x20"), observedOf("room-b", "b", "300x5 -1x15 -1x20")}, []string{"5m", "6m", "22m", "40m"}, "8m"},
	{"Metal3ReadsNotLive", []string{reads("live", "0+90x60"), reads("stale", "0+1x20 30+30x40")}, []string{"20m", "28m"}, "45m"},
	{"Metal3ReadsNotLive", []string{reads("live", "0+90x60"), reads("partial", "0+90x60"), reads("stale", "0x60")}, []string{"45m"}, ""},
	{"Metal3IronicRequestsFail", []string{`metal3_ironic_request_duration_seconds_count{namespace="m",operation="GetNode",code="200"} 0+60x60`,
		`metal3_ironic_request_errors_total{namespace="m",operation="GetNode",reason="timeout"} 0+1x20 20+10x40`}, []string{"20m", "28m"}, "40m"},
	{"Metal3IronicRequestsFail", []string{`metal3_ironic_request_duration_seconds_count{namespace="m",operation="GetNode",code="200"} 0+6000x60`,
		`metal3_ironic_request_duration_seconds_count{namespace="m",ironic="room-b",operation="GetNode",code="200"} 0+60x60`,
		`metal3_ironic_request_errors_total{namespace="m",ironic="room-b",operation="GetNode",reason="timeout"} 0+1x20 20+10x40`}, []string{"20m", "28m"}, "40m"},
	{"Metal3IronicSlow", []string{requests("2.5", "0+10x10 100+9x50"), requests("5", "0+10x60"), requests("+Inf", "0+10x60")}, []string{"10m", "20m"}, "40m"},
	{"Metal3ChangesDelayed", []string{`metal3_ironic_change_delay_seconds_bucket{namespace="m",le="15"} 0+10x10 100x50`,
		`metal3_ironic_change_delay_seconds_bucket{namespace="m",le="30"} 0+10x60`, `metal3_ironic_change_delay_seconds_bucket{namespace="m",le="+Inf"} 0+10x60`}, []string{"10m", "20m"}, "40m"},
	{"Metal3NodesUnreadable", []string{`metal3_ironic_unreadable_nodes{namespace="m"} 0x5 1x100`}, []string{"5m", "14m"}, "16m"},
	{"Metal3ClocksDiffer", []string{`metal3_ironic_feed_misses_total{namespace="m"} 0x10 1x100`}, []string{"10m", "80m"}, "12m"},
	{"Metal3HostsInError", []string{inError("power management error", "0x5 1 0 1x60")}, []string{"5m", "20m", "35m"}, "40m"},
	{"Metal3BMCsUnreachable", []string{unreachable("", "1x5 8x30 0x30"), hosts("available", "OK", "30x60")}, []string{"5m", "12m", "40m"}, "20m"},
	{"Metal3BMCsUnreachable", []string{unreachable("", "8x60"), hosts("available", "OK", "100x60")}, []string{"40m"}, ""},
	{"Metal3BMCsUnreachable", []string{unreachable("", "4x60"), hosts("available", "OK", "4x60")}, []string{"40m"}, ""},
	{"Metal3BMCsUnreachable", []string{unreachable("", "0x60"), inError("registration error", "80x60"), hosts("available", "error", "80x60")}, []string{"40m"}, ""}, // held, for example
	{"Metal3BMCsUnreachable", []string{unreachable("", "0x60"), hosts("available", "OK", "100x60"), // all of one of two Ironics
		unreachable("room-b", "0x5 10x60"), hostsOf("room-b", "provisioned", "error", "10x60")}, []string{"5m", "14m"}, "20m"},
	{"Metal3BMCsUnreachable", []string{unreachable("room-a", "0x5 3x60"), unreachable("room-b", "0x5 3x60"), unreachable("room-c", "0x60"), // a few in each of many
		hostsOf("room-a", "provisioned", "OK", "4x60"), hostsOf("room-b", "provisioned", "OK", "4x60"), hostsOf("room-c", "provisioned", "OK", "4x60")}, []string{"5m", "14m"}, "20m"},
	{"Metal3BMCsUnreachable", []string{unreachable("", "0x5 8x20 _x40"), hosts("available", "OK", "30x25 _x40"), // another replica leads
		`metal3_hosts_bmc_unreachable{namespace="m",pod="b"} _x25 8x40`, `metal3_hosts{namespace="m",pod="b",state="available",operational_status="OK"} _x25 30x40`}, []string{"5m"}, "50m"},
	{"Metal3ProvisioningFails", []string{`metal3_host_error_total{namespace="m",error_type="ProvisioningError"} 0x5 1x5 5x100`}, []string{"8m", "90m"}, "15m"},
	{"Metal3HostStuck", []string{longest("inspecting", "0+60x300"), longest("provisioned", "0+60x300")}, []string{"170m", "185m"}, "195m"},
	{"Metal3HostStuck", []string{longest("registering", "0+60x120 _x200")}, []string{"195m", "300m"}, ""}, // what was there longest is paused
	{"Metal3HostsHeld", []string{held("AnotherBMC", "0x5 1x100 0x20"), held("Restored", "0x125")}, []string{"5m", "7m", "108m"}, "100m"},
	{"Metal3HostsHeld", []string{held("BMCInUse", "0x5 3x1 0x60")}, []string{"5m", "7m", "8m", "40m"}, ""}, // until all Ironics have been read
	{"Metal3HostsHeld", []string{held("Restored", "80x20 _x40"), `metal3_hosts_held{namespace="m",pod="b",reason="Restored"} _x20 80x40`}, []string{"1m"}, "25m"},
	{"Metal3HostsHeld", []string{held("AnotherBMC", "0x60"), `metal3_host_held_total{namespace="m",reason="AnotherBMC"} 0x5 1x60`}, []string{"20m"}, ""},
	{"Metal3HostsDelayed", []string{hosts("provisioning", "delayed", "0x5 2x100")}, []string{"5m", "60m"}, "70m"},
	{"Metal3NoHostAvailable", []string{hosts("available", "OK", "1x5 0x100"), hosts("provisioned", "OK", "5x100")}, []string{"5m", "60m"}, "70m"},
	{"Metal3NoHostAvailable", []string{hosts("available", "OK", "0x100")}, []string{"90m"}, ""},
	{"Metal3NoHostAvailable", []string{hosts("available", "OK", "0x100"), hostsOf("room-b", "available", "OK", "1x100"),
		hosts("provisioned", "OK", "5x100")}, []string{"90m"}, ""},
	{"Metal3QueueSlow", []string{`metal3_host_queue_oldest_seconds{namespace="m"} 1x5 0+60x60`}, []string{"5m", "20m"}, "22m"},
	{"Metal3StepStuck", []string{longestStep("", "0+60x60")}, []string{"5m", "10m"}, "11m"},
	{"Metal3StepStuck", []string{longestStep("", "1 2 1 5x60"), longestStep("room-b", "0+60x30 0x30"), longestStep("room-c", "0x60")}, []string{"5m", "10m", "33m"}, "11m"},
	{"Metal3StepStuck", []string{longestStep("", "1 60 3 59 60x60"), longestStep("room-b", "60x60")}, []string{"20m", "60m"}, ""},
	{"Metal3EtcdFull", []string{`metal3_etcd_full{namespace="m"} 0x5 1x20`}, []string{"5m", "6m"}, "8m"},
	{"Metal3EtcdMemberLost", []string{member("0", "1x60"), member("1", "1x60"), member("2", "1x5 0x2 1x5 0x20")}, []string{"10m", "17m"}, "20m"},
	{"Metal3EtcdMemberLost", []string{member("0", "1x60"), member("1", "1x60"), member("2", "1x5 _x20")}, []string{"9m"}, "16m"}, // its pod is gone
	{"Metal3EtcdMemberLost", []string{member("0", "0x60"), member("1", "0x60"), member("2", "0x60")}, []string{"4m"}, "6m"},
	{"Metal3EtcdSnapshotOld", []string{`kube_cronjob_status_last_successful_time{namespace="m",cronjob="metal3-etcd-snapshot"} 0x60 3600x300`}, []string{"185m", "245m"}, "255m"},
	{"Metal3EtcdSnapshotOld", []string{`kube_cronjob_created{namespace="m",cronjob="metal3-etcd-snapshot"} 0x300`}, []string{"185m"}, "195m"}, // it never succeeded
}

func member(ordinal, values string) string {
	return fmt.Sprintf(`up{job="metal3-etcd",namespace="m",pod="metal3-etcd-%s"} %s`, ordinal, values)
}

func leads(pod, values string) string {
	return fmt.Sprintf(`leader_election_master_status{job="metal3-apiserver",namespace="m",name="metal3-apiserver",pod=%q} %s`, pod, values)
}

func scraped(pod, values string) string {
	return fmt.Sprintf(`up{job="metal3-apiserver",namespace="m",pod=%q} %s`, pod, values)
}

func slots(pod, ironic, values string) string {
	return fmt.Sprintf(`metal3_provisioning_slots{namespace="m",pod=%q,ironic=%q} %s`, pod, ironic, values)
}

func observed(pod, values string) string {
	return fmt.Sprintf(`metal3_ironic_observation_age_seconds{namespace="m",pod=%q} %s`, pod, values)
}

func observedOf(ironic, pod, values string) string {
	return fmt.Sprintf(`metal3_ironic_observation_age_seconds{namespace="m",ironic=%q,pod=%q} %s`, ironic, pod, values)
}

func reads(result, values string) string {
	return fmt.Sprintf(`metal3_host_reads_total{namespace="m",verb="get",result=%q} %s`, result, values)
}

func requests(le, values string) string {
	return fmt.Sprintf(`metal3_ironic_request_duration_seconds_bucket{namespace="m",operation="GetNode",code="200",le=%q} %s`, le, values)
}

func inError(errorType, values string) string {
	return fmt.Sprintf(`metal3_hosts_in_error{namespace="m",error_type=%q} %s`, errorType, values)
}

func hosts(state, operationalStatus, values string) string {
	return fmt.Sprintf(`metal3_hosts{namespace="m",state=%q,operational_status=%q} %s`, state, operationalStatus, values)
}

func hostsOf(ironic, state, operationalStatus, values string) string {
	return fmt.Sprintf(`metal3_hosts{namespace="m",ironic=%q,state=%q,operational_status=%q} %s`, ironic, state, operationalStatus, values)
}

func unreachable(ironic, values string) string {
	return fmt.Sprintf(`metal3_hosts_bmc_unreachable{namespace="m",ironic=%q} %s`, ironic, values)
}

func longestStep(ironic, values string) string {
	return fmt.Sprintf(`metal3_host_longest_step_seconds{namespace="m",ironic=%q} %s`, ironic, values)
}

func held(reason, values string) string {
	return fmt.Sprintf(`metal3_hosts_held{namespace="m",reason=%q} %s`, reason, values)
}

func longest(state, values string) string {
	return fmt.Sprintf(`metal3_hosts_longest_in_state_seconds{namespace="m",state=%q} %s`, state, values)
}

// dashboard is what the tests look at of a dashboard of Grafana.
type dashboard struct {
	ID         *int   `json:"id"`
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Editable   bool   `json:"editable"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Datasource  struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		FieldConfig struct {
			Defaults struct {
				Unit string `json:"unit"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// TestDashboard checks the rules by which Grafana's dashboards work in every installation, and
// that the panels show metrics that exist.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(readDoc(t, "monitoring/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.ID != nil || d.UID == "" || d.Title == "" || d.Editable {
		t.Error("the dashboard must have a uid and a title, no id, and not be editable")
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if variables["datasource"] != "datasource" || variables["namespace"] != "query" {
		t.Errorf("the variables are %v, want a datasource and a namespace", variables)
	}
	seen := map[int]bool{}
	shown := ""
	for _, p := range d.Panels {
		if seen[p.ID] {
			t.Errorf("%s: another panel has the same id", p.Title)
		}
		seen[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%q lacks a title, a description, a unit, a query, or the variable datasource", p.Title)
		}
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
			checkQuery(t, p.Title, target.Expr)
			if !strings.Contains(target.Expr, `namespace=~"$namespace"`) {
				t.Errorf("%s: %s does not select the namespace", p.Title, target.Expr)
			}
			if regexp.MustCompile(`(rate|increase)\(`).MatchString(target.Expr) && !strings.Contains(target.Expr, "[$__rate_interval]") {
				t.Errorf("%s: %s has a fixed range", p.Title, target.Expr)
			}
		}
	}
	for name := range documentedMetrics(t) {
		if !strings.Contains(shown, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}
