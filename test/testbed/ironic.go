package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// IronicOptions are the choices of StartDebianIronic.
type IronicOptions struct {
	// Release is bookworm, trixie or sid: Ironic 21.4, 29.0 and the newest.
	Release string
	// Dir gets the logs. It must exist.
	Dir string
	// User and Password turn HTTP basic authentication on.
	User, Password string
	// ExtraConf is text in ironic.conf's format that overrides what test/ironic/run.sh sets.
	ExtraConf string
	// Progress is told what is being made, which takes minutes the first time; os.Stderr when nil.
	Progress io.Writer
}

// DebianIronic is a real Ironic from Debian packages, API and conductor in one
// process, with the ipmi, redfish and fake-hardware drivers.
type DebianIronic struct {
	// Endpoint is http://127.0.0.1:PORT, without /v1.
	Endpoint string
	// LogPath is the file that it logs to.
	LogPath string

	options IronicOptions
	scripts string
	root    string
	state   string
	env     []string
	run     *process
	bmcs    []*BMC
}

// DebianIronicMissing tells why a DebianIronic cannot run here, or nil.
func DebianIronicMissing() error {
	if os.Geteuid() != 0 {
		return errors.New("a real Ironic runs in a Debian folder by chroot, for which one has to be root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("a real Ironic comes from Debian packages, and there is no apt-get: needs Debian or Ubuntu")
	}
	return nil
}

// StartDebianIronic makes the Debian folder when it is not there yet and starts
// an Ironic without nodes. End it with Close.
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
	if options.Progress == nil {
		options.Progress = os.Stderr
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
	if i.root, err = i.makeRoot(ctx); err != nil {
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
	if err := i.Start(ctx); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

func (i *DebianIronic) makeRoot(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(i.scripts, "root.sh"), i.options.Release)
	cmd.Stderr = i.options.Progress
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	// mmdebstrap undoes its mounts on SIGTERM, so its whole group gets that.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("making the Debian folder with test/ironic/root.sh %s: %w", i.options.Release, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// stateName names a state folder after the process that it belongs to, too, for removeLeftovers.
func stateName(kind string, port int) string {
	return fmt.Sprintf("testbed-%d-%s-%d", os.Getpid(), kind, port)
}

// removeLeftovers removes the state folders of programs that were killed before
// they could do it.
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
		// Newer ones are a master and a worker; SIGTERM reaches both.
		onParentDeath: syscall.SIGTERM,
	}.start()
	if err != nil {
		return err
	}
	operator := i.Operator()
	return i.run.waitReady(ctx, 60*time.Second, func(ctx context.Context) error {
		// GET / is answered before there is a conductor; drivers come with it.
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

// Stop ends Ironic and keeps its database.
func (i *DebianIronic) Stop() error { return i.run.stop(30 * time.Second) }

// Kill ends Ironic at once and keeps its database.
func (i *DebianIronic) Kill() error { return i.run.kill() }

// Pause makes Ironic hang: it accepts connections and never answers. Resume ends it.
func (i *DebianIronic) Pause() error { return i.run.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (i *DebianIronic) Resume() error { return i.run.signal(syscall.SIGCONT) }

// Operator is a client with Ironic's own API and this Ironic's credentials.
func (i *DebianIronic) Operator() *Operator {
	return &Operator{Endpoint: i.Endpoint, User: i.options.User, Password: i.options.Password}
}

// Close ends Ironic and its BMCs and removes their state. The logs stay.
func (i *DebianIronic) Close() error {
	err := i.Stop()
	for _, b := range slices.Backward(i.bmcs) {
		err = errors.Join(err, b.Stop(), os.RemoveAll(b.dir))
	}
	return errors.Join(err, os.RemoveAll(i.state))
}

// CPUTime is what the processes of this Ironic have used of the machine's processors
// since they began.
func (i *DebianIronic) CPUTime() (time.Duration, error) { return i.run.cpuTime() }
