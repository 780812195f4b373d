// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStory is the first hour of a new user: from an empty list to a host that runs an image, and back,
// without a terminal.
func TestStory(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := openTab(t)
	machine := newMachine(t)
	link := startPage(t, ctx, ns, "--no-browser")
	b.open(link)
	b.wait("main", "There are no hosts yet.")
	b.wait("#freshness", "Live")
	if where := eval[string](b, "location.href"); strings.Contains(where, "link=") {
		t.Errorf("the address has the link: %s", where)
	}

	// A mistake is shown beside its field, in the words of the cluster, before anything is created.
	b.press("main", "Add a host")
	b.wait("main", "Address of the BMC")
	b.fill("Name", "openshift-worker-0")
	b.fill("Address of the BMC", "nonsense://192.0.2.1")
	b.fill("User name at the BMC", user)
	b.wait("main", `unknown type "nonsense"`)
	b.fill("Password at the BMC", password)
	b.fill("MAC address that the machine boots from", "00:ab:4f:d8:9e")
	b.pressSlowly("main", "Add the host")
	b.wait("main", "Please correct the fields")
	if invalid := eval[[]string](b, `[...document.querySelectorAll("[aria-invalid]")].map((e) => e.name)`); strings.Join(invalid, " ") != "address mac" {
		t.Errorf("the fields with mistakes are %q", invalid)
	}
	if hosts, err := s.Hosts(ns).List(ctx, metav1.ListOptions{}); err != nil || len(hosts.Items) != 0 {
		t.Errorf("a refused host was created: %v", err)
	}
	if secrets, err := s.Core.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err != nil || len(secrets.Items) != 0 {
		t.Errorf("the Secret of a refused host was created: %v", err)
	}
	b.refill("Address of the BMC", machine.address)
	b.refill("MAC address that the machine boots from", machine.mac)
	b.accessible()
	b.keepPicture("ui-add.png")
	b.press("main", "Add the host")

	// The view of the new host follows it, and the hardware appears when it is known.
	b.wait("h2", "openshift-worker-0")
	b.wait(".big", "available")
	b.wait("#hardware + div", "disk")
	b.wait("#hardware + div", "MAC address")
	b.wait("#explanation + div", "It waits for an image")
	b.wait("#timeline + div", "Registered")
	b.wait("#conditions + div", "An image can be written to it")
	b.press("main", "All hosts")
	b.wait(`tr[data-name="openshift-worker-0"]`, "available")

	// An image, by clicking.
	b.press("main", "openshift-worker-0")
	b.wait(".actions", "Provision…")
	b.press("main", "Provision…")
	b.fill("URL of the image", machine.image)
	b.fill("Checksum", machine.checksum)
	b.press("dialog", "Provision")
	b.wait(".big", "provisioned")
	b.wait(".life .now", "provisioned")
	b.wait("#facts + div", machine.image)
	b.wait("#timeline + div", "ProvisioningComplete")
	b.keepPicture("ui-host.png")
	b.accessible()

	// Bulk power from the list. The one that is on is named in the question.
	b.press("main", "All hosts")
	b.wait(`tr[data-name="openshift-worker-0"]`, "provisioned")
	b.click(`tr[data-name="openshift-worker-0"] input`)
	b.wait(".bulk", "1 host selected")
	b.press("main", "Power off")
	b.wait("dialog", "openshift-worker-0")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.waitFor("the dialog to close", func() string {
		if b.text("dialog") != "(no element)" {
			return "it is open"
		}
		return ""
	})
	if focused := eval[string](b, "document.activeElement.innerText"); focused != "Power off" {
		t.Errorf("after Escape, the focus is on %q", focused)
	}
	b.press("main", "Power off")
	b.press("dialog", "Power off 1 host")
	b.wait(`tr[data-name="openshift-worker-0"] td.power`, "off")
	if host, err := s.Hosts(ns).Get(ctx, "openshift-worker-0", metav1.GetOptions{}); err != nil || host.Spec.Online {
		t.Errorf("after power off, spec.online is true (%v)", err)
	}

	// What destroys wants the name typed.
	b.press("main", "openshift-worker-0")
	b.press("main", "Deprovision…")
	b.wait("dialog", "Type the name")
	b.press("dialog", "Deprovision")
	b.wait("dialog", "This is not the name of the host")
	b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "openshift-worker-0"))
	b.press("dialog", "Deprovision")
	b.wait(".big", "available")
	b.noComplaints()
}
