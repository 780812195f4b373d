// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"text/template"
)

var nextSteps = template.Must(template.New("").Parse(`
The demo runs until you press Ctrl-C here. In another terminal (bash), run:
{{block "variables" .}}
  export KUBECONFIG={{.Kubeconfig}}
  export PATH={{.Bin}}:$PATH
  export IRONIC_URL={{.Ironic}}
  VERSION='X-OpenStack-Ironic-API-Version: 1.82' JSON='Content-Type: application/json'
  API=/apis/metal3.io/v1alpha1/namespaces/{{.Namespace}}/baremetalhosts
{{- if .Tenant}}
  TENANT={{.Tenant}}
{{- end}}
{{end}}{{if .Host}}
Look at the hosts, live, and ask why one of them makes no progress:
  kubectl bmh -n {{.Namespace}}
  kubectl bmh watch -n {{.Namespace}}
  kubectl bmh why {{.Failing}} -n {{.Namespace}}
On a page in the browser:
  kubectl bmh ui -n {{.Namespace}}
Without the plugin:
  kubectl get baremetalhosts -n {{.Namespace}} -o wide
  kubectl get bmh {{.Host}} -n {{.Namespace}} -o yaml
  kubectl explain baremetalhost.spec.bmc

Provision a host with user data, and watch it:
  kubectl create secret generic user-data -n {{.Namespace}} --from-literal=userData='#cloud-config'
  kubectl patch bmh {{.Host}} -n {{.Namespace}} --type merge -p '{"spec":{"userData":{"name":"user-data"},"image":{"url":"{{.ImageURL}}","checksum":"{{.Checksum}}","checksumType":"sha256","format":"raw"}}}'
  kubectl bmh wait {{.Host}} -n {{.Namespace}} --for provisioned
  kubectl get events -n {{.Namespace}} --field-selector involvedObject.name={{.Host}}
Reboot it with an annotation, and later remove the image again:
  kubectl annotate bmh {{.Host}} -n {{.Namespace}} reboot.metal3.io='{"mode":"hard"}'
  kubectl patch bmh {{.Host}} -n {{.Namespace}} --type merge -p '{"spec":{"image":null}}'

Use the actions. "off" also sets spec.online to false, so that nothing turns the host on again:
  kubectl bmh power off {{.Other}} -n {{.Namespace}} --mode hard --wait
  kubectl bmh inspect {{.Other}} -n {{.Namespace}} --wait
  kubectl get hardwaredata {{.Other}} -n {{.Namespace}} -o yaml

Change something directly in Ironic, and see it in the next read:
  curl -X PUT $IRONIC_URL/v1/nodes/{{.Namespace}}~{{.Other}}/maintenance -H "$VERSION" -H "$JSON" -d '{"reason":"a fan is broken"}'
  kubectl get bmh -n {{.Namespace}} -o wide
  kubectl get bmh {{.Other}} -n {{.Namespace}} -o jsonpath='{.status.ironic}'

{{if .Unreachable}}Press Enter here to make the BMC of {{.Failing}} answer: the host recovers by itself
within half a minute. Press Enter again to silence the BMC. To retry at once:
  kubectl bmh retry {{.Failing}} -n {{.Namespace}} --wait
{{else}}Correct the password of the BMC that refuses it:
  kubectl patch secret {{.Failing}}-bmc-secret -n {{.Namespace}} -p '{"stringData":{"password":"{{.Password}}"}}'
  kubectl bmh wait {{.Failing}} -n {{.Namespace}} --for available
{{end}}Every action is a request that other clients can make, too:
  kubectl create --raw $API/{{.Other}}/power -f - <<< '{"spec":{"action":"on"}}'

{{if .Tenant}}Be a tenant, who claims hosts with this kubeconfig, and sees neither BMCs nor passwords (docs/talk.md):
  kubectl auth can-i --list --kubeconfig $TENANT
  kubectl get baremetalhosts,secrets -n {{.Namespace}} --kubeconfig $TENANT

{{end}}{{if .Simulated}}Make a machine, a step or Ironic itself fail, in many ways:
  curl $IRONIC_URL/_sim/
  curl -X POST $IRONIC_URL/_sim/nodes/{{.Namespace}}~{{.Other}}/fail -d '{"phase":"inspect","text":"no ramdisk has answered"}'
  kubectl bmh inspect {{.Other}} -n {{.Namespace}} --wait
  kubectl bmh why {{.Other}} -n {{.Namespace}}

{{end}}Delete a host, see that its node is removed from Ironic, and create the host again. (In a real
cluster, the garbage collector of kube-controller-manager, which does not run here, removes the
HardwareData and the Secret.)
  kubectl delete bmh {{.Host}} -n {{.Namespace}}
  curl -H "$VERSION" "$IRONIC_URL/v1/nodes?fields=name,power_state,provision_state"
  kubectl delete hardwaredata/{{.Host}} secret/{{.Host}}-bmc-secret -n {{.Namespace}}
  kubectl create -n {{.Namespace}} -f {{.HostFile}}
{{else}}
No host was enrolled in your Ironic. To enrol one (its node stays in Ironic unless you
delete the host before you press Ctrl-C):
  kubectl create -n {{.Namespace}} -f - <<'YAML'
{{.Example}}YAML
  kubectl get baremetalhosts -n {{.Namespace}} -o wide
  kubectl delete baremetalhost {{.ExampleName}} -n {{.Namespace}}
{{end}}
Logs: {{.Log}}, and more in {{.Dir}}
`))

// printNextSteps prints commands to try.
func (d *demo) printNextSteps() {
	if err := nextSteps.Execute(os.Stdout, d.names()); err != nil {
		panic(err) // an error in the template
	}
}

// names are what nextSteps names.
func (d *demo) names() map[string]any {
	example := worker(0, "ipmi://BMC-ADDRESS")
	names := map[string]any{
		"Kubeconfig": d.kube.Admin.Kubeconfig, "Bin": d.bin, "Ironic": d.ironic.endpoint(),
		"Namespace": namespace, "Unreachable": d.hasUnreachable(), "Password": password,
		"Dir": d.dir, "Log": d.server.LogPath, "Example": example.yaml(), "ExampleName": example.name,
	}
	if d.tenant != nil {
		names["Tenant"] = d.tenant.Kubeconfig
	}
	_, names["Simulated"] = d.ironic.(*simulated)
	names["ImageURL"], names["Checksum"] = d.ironic.image()
	var good []host
	for _, h := range d.ironic.hosts() {
		if h.fails() {
			names["Failing"] = h.name
		} else {
			good = append(good, h)
		}
	}
	if len(good) > 1 {
		names["Host"], names["Other"], names["HostFile"] = good[0].name, good[1].name, good[0].path(d.sub("hosts"))
	}
	return names
}
