package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bmcsim:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var o bmcsim.Options
	flag.IntVar(&o.Machines, "machines", 3, "number of machines")
	flag.StringVar(&o.IronicURL, "ironic", "http://127.0.0.1:6385", "URL of Ironic, which the ramdisks call")
	flag.StringVar(&o.Username, "username", "admin", "user name for all BMCs")
	passwordFile := flag.String("password-file", "", "file with the password for all BMCs; without it, the password is \"password\"")
	flag.IntVar(&o.Port, "port", 8000, "port on 127.0.0.1 of the admin endpoint, the ramdisks and the files that Ironic fetches; 0 means any free port")
	flag.IntVar(&o.FirstBMCPort, "first-bmc-port", 8001, "port of the first BMC; the others use the following ports; 0 means any free ports")
	flag.DurationVar(&o.PowerDelay, "power-delay", 0, "time until a power command takes effect")
	flag.DurationVar(&o.BootDelay, "boot-delay", 500*time.Millisecond, "time that a ramdisk takes to boot")
	flag.DurationVar(&o.Heartbeat, "heartbeat", time.Second, "interval between two calls of a ramdisk")
	flag.DurationVar(&o.BMCUpdate, "bmc-update", 0, "time that an update of a BMC's own firmware takes")
	flag.DurationVar(&o.StepDelay, "step-delay", 0, "time that each step of cleaning and deployment takes")
	steps := flag.String("deploy-steps", "", "comma-separated list of additional steps that the ramdisk offers for the deploy interface custom-agent")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *steps != "" {
		o.DeploySteps = strings.Split(*steps, ",")
	}
	if *passwordFile != "" {
		content, err := os.ReadFile(*passwordFile)
		if err != nil {
			return err
		}
		o.Password = strings.TrimRight(string(content), "\r\n")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sim, err := bmcsim.Start(o)
	if err != nil {
		return err
	}
	fmt.Println(sim.URL() + "/machines")
	for _, m := range sim.Machines() {
		fmt.Println(m.Address(), m.MAC())
	}
	<-ctx.Done()
	return sim.Close()
}
