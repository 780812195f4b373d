package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ironicsim:", err)
		os.Exit(1)
	}
}

func run() error {
	port := flag.Int("port", 6385, "port on 127.0.0.1; 0 for any free one")
	bmcs := flag.Int("seed-bmcs", 0, "number of simulated BMCs, at 127.0.0.1:6230 and the ports after it, with admin and password")
	firstBMC := flag.Int("first-bmc-port", 6230, "port of the first simulated BMC")
	autoInspect := flag.Bool("auto-inspect", false, "play the inspection ramdisk: a node in \"inspect wait\" reports a plausible inventory by itself")
	autoDeploy := flag.Bool("auto-deploy", false, "play the ramdisk of cleaning and deployment, too; the ramdisk's images count as configured")
	delay := flag.Duration("delay", 0, "time that each operation takes; 0 for 25ms")
	ramdiskDelay := flag.Duration("ramdisk-delay", 0, "time that the simulated ramdisk takes to boot; 0 for 1s")
	maxVersion := flag.String("max-version", "1.96", "highest API version")
	username := flag.String("username", "", "user of HTTP basic authentication; none if empty")
	passwordFile := flag.String("password-file", "", "file with that user's password")
	clean := flag.Bool("without-defects", false, "leave out the defects of Ironic 29.0.5: nodes that become their own parent on PATCH, and rebuild that fails")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	var minor int
	if _, err := fmt.Sscanf(*maxVersion, "1.%d", &minor); err != nil || *maxVersion != fmt.Sprintf("1.%d", minor) || minor < 1 {
		return fmt.Errorf("--max-version %q is not a version such as 1.96", *maxVersion)
	}
	password := ""
	if *username != "" {
		b, err := os.ReadFile(*passwordFile)
		if err != nil {
			return fmt.Errorf("--username needs --password-file: %w", err)
		}
		password = string(trimNewline(b))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sim := ironicsim.New(ironicsim.Options{
		MaxVersion: *maxVersion, Username: *username, Password: password,
		Delays: ironicsim.All(*delay), RamdiskDelay: *ramdiskDelay,
		AutoInspect: *autoInspect, AutoDeploy: *autoDeploy, DefaultRamdisk: *autoDeploy, WithoutDefects: *clean,
	})
	defer sim.Close()
	for i := range *bmcs {
		sim.AddBMC(fmt.Sprintf("127.0.0.1:%d", *firstBMC+i), "admin", "password")
	}
	if err := sim.Start(*port); err != nil {
		return err
	}
	fmt.Println(sim.URL())
	<-ctx.Done()
	return nil
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}
