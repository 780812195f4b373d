// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codePath  = regexp.MustCompile("`(?:\\./)?((?:test|artifacts|hack|pkg|cmd|docs)/[\\w./-]+)`")
)

// TestSecurityLinks checks that what docs/security.md links to, and names as evidence, is there.
func TestSecurityLinks(t *testing.T) {
	page := readDoc(t, "../docs/security.md")
	links := mdLink.FindAllStringSubmatch(page, -1)
	if len(links) < 15 {
		t.Errorf("%d links: the test is broken", len(links))
	}
	for _, link := range links {
		file, anchor, _ := strings.Cut(link[1], "#")
		if strings.Contains(file, "://") {
			continue
		}
		path := filepath.Join("../docs", file)
		if file == "" {
			path = "../docs/security.md"
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("docs/security.md links to %s: %v", link[1], err)
		} else if anchor != "" && !slices.Contains(anchorsOf(readDoc(t, path)), anchor) {
			t.Errorf("docs/security.md links to %s, and %s has no such heading", link[1], file)
		}
	}
	for _, path := range codePath.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join("..", path[1])); err != nil {
			t.Errorf("docs/security.md names %s: %v", path[1], err)
		}
	}
	tests := readAll(t, "../test/security/*_test.go")
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("docs/security.md names %s, which is not in test/security", name[1])
		}
	}
}

// anchorsOf returns the anchors of the headings, as GitHub makes them.
func anchorsOf(page string) (anchors []string) {
	for _, heading := range mdHeading.FindAllStringSubmatch(page, -1) {
		text := strings.ToLower(regexp.MustCompile(`[^\w -]`).ReplaceAllString(heading[1], ""))
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}

func readAll(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(readDoc(t, file))
	}
	return all.String()
}

// TestDocumentedRoles compares the roles in docs/install.md, and their number in docs/security.md, with the ClusterRoles that
// the manifests bind to nobody. None of them may write the status of hosts.
func TestDocumentedRoles(t *testing.T) {
	_, section, _ := strings.Cut(readDoc(t, "../docs/install.md"), "\n### 8. Who may do what\n")
	section, _, _ = strings.Cut(section, "\nNone of them includes")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	objs := parse(t, rendered(t)["site-basic-auth"])
	// The server's own, and that for a controller beside this server.
	others := []string{"metal3-apiserver", "metal3-apiserver-secrets", "metal3-apiserver-secret-copies", "metal3-kinds-controller"}
	var defined []string
	for _, role := range all[*rbacv1.ClusterRole](objs) {
		if slices.Contains(others, role.Name) {
			continue
		}
		defined = append(defined, role.Name)
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if resource == "*" || resource == "baremetalhosts/status" && !slices.Equal(rule.Verbs, []string{"get"}) {
					t.Errorf("%s may %v %s", role.Name, rule.Verbs, resource)
				}
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(defined)
	if !slices.Equal(documented, defined) {
		t.Errorf("docs/install.md lists the roles\n%v, and the manifests define\n%v", documented, defined)
	}
	numbers := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	if want := "define " + numbers[len(defined)] + " ClusterRoles for users"; !strings.Contains(readDoc(t, "../docs/security.md"), want) {
		t.Errorf("docs/security.md does not say that the manifests %s", want)
	}
}

// TestDocumentedQueues compares how many requests of a namespace wait at most, according to docs/security.md, with the queues that a
// namespace has in the priority level of all kinds.
func TestDocumentedQueues(t *testing.T) {
	level := named[*flowcontrolv1.PriorityLevelConfiguration](parse(t, rendered(t)["site-basic-auth"]), "metal3")
	queuing := level.Spec.Limited.LimitResponse.Queuing
	want := fmt.Sprintf("429 beyond %d waiting requests", queuing.HandSize*queuing.QueueLengthLimit)
	if !strings.Contains(readDoc(t, "../docs/security.md"), want) {
		t.Errorf("docs/security.md does not say: %s", want)
	}
}
