// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// IronicOptions are the options of StartDebianIronic.
type IronicOptions struct {
	// Release is bookworm (Ironic 21.4), trixie (29.0) or sid (the latest).
	Release string
	// Dir is the directory for the logs. It must exist.
	Dir string
	// User and Password, if they are set, enable HTTP basic authentication.
	User, Password string
	// Keystone, if it is set, has the users. Without it and User, everybody may do everything, or, with
	// AUTH=keystone in the environment, a Keystone is started that ends with the Ironic.
	Keystone *Keystone
	// ExtraConf is text in the format of ironic.conf. It overrides what test/ironic/run.sh sets.
	ExtraConf string
}

// DebianIronic is a real Ironic from Debian packages. Its API and its conductor run in one process,
// with the ipmi, redfish and fake-hardware drivers.
type DebianIronic struct {
	// Endpoint is http://127.0.0.1:PORT, without /v1.
	Endpoint string
	// LogPath is the path of its log.
	LogPath string

	options IronicOptions
	scripts string
	root    string
	state   string
	env     []string
	run     *process
	bmcs    []*BMC
	// ownKeystone ends with this Ironic.
	ownKeystone *Keystone
}

// DebianIronicMissing returns an error that says why a DebianIronic cannot run on this machine, or
// nil if it can.
func DebianIronicMissing() error {
	if os.Geteuid() != 0 {
		return errors.New("a real Ironic runs in a chroot, which requires root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("a real Ironic is installed from Debian packages, and there is no apt-get: Debian or Ubuntu is required")
	}
	return nil
}

// StartDebianIronic creates the Debian root file system if it does not exist yet, and starts an
// Ironic without nodes. The caller must stop it with Close.
func StartDebianIronic(ctx context.Context, options IronicOptions) (*DebianIronic, error) {
	if err := DebianIronicMissing(); err != nil {
		return nil, err
	}
	repo, err := RepoRoot()
	if err != nil {
		return nil, err
	}
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	i := &DebianIronic{
		Endpoint: "http://127.0.0.1:" + strconv.Itoa(port),
		LogPath:  filepath.Join(options.Dir, "ironic-"+options.Release+".log"),
		options:  options,
		scripts:  filepath.Join(repo, "test", "ironic"),
	}
	if i.root, err = makeRoot(ctx, i.scripts, options.Release); err != nil {
		return nil, err
	}
	if err := removeLeftovers(filepath.Join(i.root, "state")); err != nil {
		return nil, err
	}
	name := stateName("ironic", port)
	i.state = filepath.Join(i.root, "state", name)
	i.env = []string{"IRONIC_PORT=" + strconv.Itoa(port), "IRONIC_NAME=" + name}
	if options.User != "" {
		i.env = append(i.env, "IRONIC_USER="+options.User, "IRONIC_PASSWORD="+options.Password)
	}
	if options.ExtraConf != "" {
		path := filepath.Join(options.Dir, "ironic-extra.conf")
		if err := os.WriteFile(path, []byte(options.ExtraConf), 0o600); err != nil {
			return nil, err
		}
		i.env = append(i.env, "IRONIC_EXTRA_CONF="+path)
	}
	if options.Keystone == nil && options.User == "" && os.Getenv("AUTH") == "keystone" {
		if i.ownKeystone, err = StartKeystone(ctx, options.Dir); err != nil {
			return nil, err
		}
		i.options.Keystone = i.ownKeystone
	}
	if err := errors.Join(i.useKeystone(ctx), i.Start(ctx)); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// useKeystone adds Ironic to the catalog of its Keystone, if it has one, and lets servers that are started
// for its endpoint authenticate as the administrator, unless they have a cloud of their own.
func (i *DebianIronic) useKeystone(ctx context.Context) error {
	k := i.options.Keystone
	if k == nil {
		return nil
	}
	if err := k.AddBareMetalEndpoint(ctx, i.Endpoint); err != nil {
		return err
	}
	i.env = append(i.env, "IRONIC_KEYSTONE_URL="+k.URL, "IRONIC_KEYSTONE_CA="+k.CAFile, "IRONIC_KEYSTONE_PASSWORD="+k.password)
	path := filepath.Join(i.options.Dir, "clouds.yaml")
	if err := k.WriteClouds(path, k.AdministratorAuth()); err != nil {
		return err
	}
	cloudsOf.Store(i.Endpoint, path)
	return nil
}

// cloudsOf has the clouds.yaml for each Ironic with a Keystone, by its endpoint.
var cloudsOf sync.Map

// makeRoot has root.sh create the Debian root file system of a release's Ironic, or of "keystone", if it
// does not exist yet, and returns its path.
func makeRoot(ctx context.Context, scripts, what string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(scripts, "root.sh"), what)
	cmd.Stderr = os.Stderr // It takes minutes the first time and prints its progress.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	// mmdebstrap removes its mounts on SIGTERM, so SIGTERM is sent to its whole process group.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("creating the Debian root file system with test/ironic/root.sh %s: %w", what, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// stateName returns the name of a state folder. It includes the ID of this process, for
// removeLeftovers.
func stateName(kind string, port int) string {
	return fmt.Sprintf("testbed-%d-%s-%d", os.Getpid(), kind, port)
}

// removeLeftovers removes the state folders of processes that were killed before they could remove
// them.
func removeLeftovers(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "testbed-*"))
	for _, path := range paths {
		var owner int
		if _, scanErr := fmt.Sscanf(filepath.Base(path), "testbed-%d-", &owner); scanErr != nil {
			continue
		}
		if errors.Is(syscall.Kill(owner, 0), syscall.ESRCH) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// Start starts Ironic again after Stop or Kill, with the nodes that it had.
func (i *DebianIronic) Start(ctx context.Context) error {
	var err error
	i.run, err = command{
		name: "ironic-" + i.options.Release, log: i.LogPath,
		path: filepath.Join(i.scripts, "run.sh"), args: []string{i.options.Release}, env: i.env,
		// Newer releases have a master and a worker process. SIGTERM ends both.
		onParentDeath: syscall.SIGTERM,
	}.start()
	if err != nil {
		return err
	}
	operator := i.Operator()
	return i.run.waitReady(ctx, func(ctx context.Context) error {
		// Ironic answers GET / before it has a conductor. Drivers exist only with a conductor.
		var answer struct {
			Drivers []struct {
				Name string `json:"name"`
			} `json:"drivers"`
		}
		if err := operator.Do(ctx, "GET", "/v1/drivers", nil, &answer); err != nil {
			return err
		}
		for _, d := range answer.Drivers {
			if d.Name == "ipmi" {
				return nil
			}
		}
		return errors.New("Ironic has no conductor with the ipmi driver yet")
	})
}

// Stop stops Ironic and keeps its database.
func (i *DebianIronic) Stop() error { return i.run.stop() }

// Kill kills Ironic and keeps its database.
func (i *DebianIronic) Kill() error { return i.run.kill() }

// Pause makes Ironic hang: it accepts connections and does not answer until Resume.
func (i *DebianIronic) Pause() error { return i.run.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (i *DebianIronic) Resume() error { return i.run.signal(syscall.SIGCONT) }

// Operator returns a client for Ironic's own API, with the credentials of this Ironic.
func (i *DebianIronic) Operator() *Operator {
	o := &Operator{Endpoint: i.Endpoint, User: i.options.User, Password: i.options.Password}
	if k := i.options.Keystone; k != nil {
		o.Token = k.adminToken
	}
	return o
}

// Close stops Ironic and its BMCs, and removes their state but not the logs.
func (i *DebianIronic) Close() error {
	err := i.Stop()
	for _, b := range slices.Backward(i.bmcs) {
		err = errors.Join(err, b.Stop(), os.RemoveAll(b.dir))
	}
	if i.ownKeystone != nil {
		err = errors.Join(err, i.ownKeystone.Close())
	}
	return errors.Join(err, os.RemoveAll(i.state))
}

// CPUTime is what the processes of this Ironic have used of the machine's processors
// since they began.
func (i *DebianIronic) CPUTime() (time.Duration, error) { return i.run.cpuTime() }
