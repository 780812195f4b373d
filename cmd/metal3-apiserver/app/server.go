// Package app implements the command: its options, its configuration, and how it runs. It
// connects storage and synchronisation, which know each other only through interfaces.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	kindcontroller "github.com/metal3-io/metal3-apiserver/pkg/ironicsync/controller"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/dataimage"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostclaim"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostnetwork"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/networkswitch"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/preprovisioning"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/subscription"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// The rate limit of requests to the cluster, most of which are for Secrets when hundreds of hosts
// are registered. The default of client-go is 5 per second.
const (
	clusterQPS   = 50
	clusterBurst = 100
)

// Version is the version of this program. It is set by the linker.
var Version = "devel"

// NewCommand returns the command, which runs until ctx ends.
func NewCommand(ctx context.Context) *cobra.Command {
	o := NewOptions()
	showVersion := false
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	cmd := &cobra.Command{
		Use:   "metal3-apiserver",
		Short: "Serve BareMetalHosts as an aggregated Kubernetes API, with live status from OpenStack Ironic",
		Long: `metal3-apiserver serves BareMetalHost (metal3.io/v1alpha1) as an aggregated
Kubernetes API. The spec is kept in etcd, the status is read from OpenStack
Ironic at each request, and power and inspection are subresources.

"metal3-apiserver import" takes over the objects of a cluster that serves them with
CustomResourceDefinitions, and "metal3-apiserver export" gives them back.`,
		Args: cobra.NoArgs,
		// An invalid flag is refused with a single line, without the usage.
		SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return compatibility.DefaultComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				fmt.Fprintln(cmd.OutOrStdout(), "metal3-apiserver", Version)
				return nil
			}
			if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			err := Run(ctx, o)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // stopped before it served requests
			}
			return err
		},
	}
	flags := o.Flags()
	global := flags.FlagSet("Global")
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	global.BoolVar(&showVersion, "version", false, "Print the version and exit.")
	for _, fs := range flags.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, flags, columns)
	cmd.SetFlagErrorFunc(explainOperatorFlag)
	cmd.AddCommand(newImportCommand(ctx), newExportCommand(ctx))
	return cmd
}

// Run serves until ctx ends.
func Run(ctx context.Context, o *Options) (err error) {
	klog.InfoS("Starting metal3-apiserver", "version", Version)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	for _, warning := range o.Ironic.Warnings() {
		klog.ErrorS(nil, "Credentials are exposed: "+warning)
	}
	client, err := client.New(o.Ironic)
	if err != nil {
		return err
	}
	defer client.Close()

	var quota int64 // of the embedded etcd
	var disk *diskReserve
	if len(o.Recommended.Etcd.StorageConfig.Transport.ServerList) == 0 {
		quota = o.DataDirQuota
		etcd, err := startEmbeddedEtcd(ctx, o.DataDir, quota, zapcore.WarnLevel)
		if err != nil {
			return err
		}
		defer etcd.Close() // runs after everything else has stopped
		disk = etcd.disk
		o.Recommended.Etcd.StorageConfig.Transport.ServerList = []string{etcd.Endpoint}
		go func() {
			select {
			case err := <-etcd.Err():
				cancel(fmt.Errorf("embedded etcd: %w", err))
			case <-ctx.Done():
			}
		}()
	}
	space, spaceWatched, err := watchEtcdSpace(ctx, o.Recommended.Etcd.StorageConfig.Transport, quota, disk)
	if err != nil {
		return err
	}
	defer func() {
		cancel(nil)
		<-spaceWatched
	}()
	if err := waitForCluster(ctx, o); err != nil {
		return err
	}

	recommended, err := o.config()
	if err != nil {
		return err
	}
	readerSecrets, err := secretsForReads(recommended.ClientConfig)
	if err != nil {
		return err
	}
	config := apiserver.Complete(recommended)
	server, err := apiserver.New(config)
	if err != nil {
		return err
	}
	if err := server.AddReadyzChecks(healthz.NamedCheck("etcd-space", func(*http.Request) error { return space.hasSpace() })); err != nil {
		return err
	}
	registerEtcdSpace(space)
	stores, err := metal3.NewStores(apiserver.Scheme, explainedOptions{config.RESTOptionsGetter}, o.Settings.Namespaces)
	if err != nil {
		return err
	}
	hosts := baremetalhost.NewHosts(stores.Hosts)
	// Reads are still served while the server shuts down, so the Refresher must outlive it.
	liveCtx, stopLive := context.WithCancel(context.WithoutCancel(ctx))
	refresher := live.NewRefresher(liveCtx, hosts, client, clock.RealClock{}, o.ReadTimeout)
	refresher.CallbackTimeout = o.Settings.CallbackTimeout
	refresher.Secrets = readerSecrets
	defer func() {
		stopLive()
		refresher.Wait()
	}()
	registerObservationAge(refresher)
	firmwareSettings := stores.Kinds.HostFirmwareSettings()
	keeper := &firmware.Keeper{Settings: firmwareSettings, Schemas: stores.Kinds.FirmwareSchemas(), Ironic: client, Clock: clock.RealClock{}}
	firmwareComponents := stores.Kinds.HostFirmwareComponents()
	componentKeeper := &firmware.ComponentKeeper{Components: firmwareComponents, Ironic: client, Clock: clock.RealClock{}}
	reads := liveReads{refresher, &firmware.Reader{
		Keeper: keeper, Components: componentKeeper, Hosts: hosts, Refresher: refresher, Policies: stores.Kinds.HostUpdatePolicies(),
		ListSettings: firmwareSettings.List, ListComponents: firmwareComponents.List, Timeout: o.ReadTimeout,
	}}
	claims, err := newEtcdClaims(o.Recommended.Etcd.StorageConfig)
	if err != nil {
		return err
	}
	defer func() { _ = claims.client.Close() }()
	consoles := console.New(ctx, client, claims)
	consolesCtx, stopConsoles := context.WithCancel(ctx)
	consolesClosed := make(chan struct{})
	go func() { defer close(consolesClosed); consoles.Run(consolesCtx) }()
	defer func() {
		stopConsoles()
		<-consolesClosed
	}()
	storage := stores.Storage(apiserver.Scheme, reads, client, config.AdmissionControl, consoles, config.Authorization.Authorizer)
	if err := apiserver.InstallAPIGroup(server, storage); err != nil {
		return err
	}
	if err := apiserver.InstallIronicGroup(server, ironic.Storage(client, hosts)); err != nil {
		return err
	}
	active := &drive.Active{}
	registerLeading(active)
	if err := server.AddLivezChecks(0, active); err != nil {
		return err
	}
	if kube := recommended.ClientConfig; kube != nil {
		kube = rest.CopyConfig(kube)
		kube.QPS, kube.Burst = clusterQPS, clusterBurst
		clientset, err := kubernetes.NewForConfig(kube)
		if err != nil {
			return err
		}
		meta, err := metadata.NewForConfig(kube)
		if err != nil {
			return err
		}
		count, err := newEtcdCounter(o.Recommended.Etcd.StorageConfig)
		if err != nil {
			return err
		}
		defer func() { _ = count.client.Close() }()
		lead := func(ctx context.Context, leading func() bool) error {
			recorder := events.NewRecorder(clientset)
			recorded := make(chan struct{})
			go func() { defer close(recorded); recorder.Run(ctx) }()
			defer func() { <-recorded }()
			settings := o.Settings
			var err error
			if settings.Cluster, err = clusterUID(ctx, clientset); err != nil {
				return err
			}
			hostSecrets := secrets.New(clientset, meta, settings.Namespaces)
			images := dataimage.New(dataimage.Parts{
				Images: stores.Kinds.DataImages(), Hosts: hosts, Ironic: client, Events: recorder,
				CheckURL: settings.Images.CheckURL, Namespaces: settings.Namespaces,
			})
			ramdisks := preprovisioning.New(preprovisioning.Parts{
				Images: stores.Kinds.PreprovisioningImages(), Hosts: hosts, Secret: hostSecrets.Data,
				Enabled: settings.BuildImages, Ramdisk: settings.Ramdisk, Namespaces: settings.Namespaces,
			})
			controller := drive.NewController(drive.Parts{
				Hosts: hosts, Ironic: client, Refresher: refresher, Secrets: hostSecrets,
				Hardware: stores.Kinds.HardwareData(), Firmware: watchedFirmware{keeper, firmwareSettings}, Components: watchedComponents{componentKeeper, firmwareComponents}, Policies: stores.Kinds.HostUpdatePolicies(),
				Events: recorder, DataImages: images, HostImages: ramdisks, Leading: leading,
			}, settings)
			images.PlanHost, ramdisks.PlanHost = controller.PlanHost, controller.PlanHost
			subscriptions := subscription.New(subscription.Parts{
				Subscriptions: stores.Kinds.BMCEventSubscriptions(), Hosts: hosts, Ironic: client, Events: recorder,
				Secret: hostSecrets.Read, Namespaces: settings.Namespaces,
			})
			for _, changed := range []func(namespace, name string){subscriptions.SecretChanged, ramdisks.SecretChanged} {
				if err := hostSecrets.Notify(changed); err != nil {
					return err
				}
			}
			run := []func(context.Context) error{kindcontroller.WhileLeading(leading, images.Run), kindcontroller.WhileLeading(leading, subscriptions.Run), ramdisks.Run}
			followers := []func(old, host *metal3api.BareMetalHost){images.HostChanged, subscriptions.HostChanged, ramdisks.HostChanged}
			if o.Switches.Enabled {
				switches := networkswitch.New(networkswitch.Parts{
					Switches: stores.Kinds.BareMetalSwitches(), Secrets: hostSecrets, Settings: o.Switches, Namespaces: settings.Namespaces,
				})
				if err := hostSecrets.Notify(switches.SecretChanged); err != nil {
					return err
				}
				networks := hostnetwork.New(hostnetwork.Parts{
					Attachments: stores.Kinds.HostNetworkAttachments(), Hosts: hosts, Ironic: client, Namespaces: settings.Namespaces,
				})
				followers = append(followers, networks.HostChanged)
				run = append(run, switches.Run, kindcontroller.WhileLeading(leading, networks.Run))
			}
			hostClaims, err := hostclaim.New(hostclaim.Parts{
				Claims: stores.Kinds.HostClaims(), Policies: stores.Kinds.HostDeployPolicies(), Hosts: hosts, Hardware: stores.Kinds.HardwareData(),
				Secrets: hostSecrets, Events: recorder, ClaimNamespaces: namespaceInformer(meta), Namespaces: settings.Namespaces,
			})
			if err != nil {
				return err
			}
			if err := hostSecrets.Notify(hostClaims.SecretChanged); err != nil {
				return err
			}
			hostsSynced, err := controller.OnHostChange(hostClaims.HostChanged)
			if err != nil {
				return err
			}
			hostClaims.RunAfter(hostsSynced)
			run = append(run, kindcontroller.WhileLeading(leading, hostClaims.Run))
			for _, changed := range followers {
				if _, err := controller.OnHostChange(changed); err != nil {
					return err
				}
			}
			if o.LeaderElection.LeaderElect {
				namespace := o.LeaderElection.ResourceNamespace
				guard := &restoreGuard{
					leases: clientset.CoordinationV1().Leases(namespace), namespace: namespace, name: o.LeaderElection.ResourceName,
					count: count, hold: controller.SetRestored,
				}
				held, err := guard.check(ctx)
				if err != nil {
					return err // and tried again: nothing is done to machines before it is known
				}
				var guarding sync.WaitGroup
				defer guarding.Wait()
				guarding.Go(func() { guard.run(ctx, held) })
			}
			drives := func(ctx context.Context) error { return active.Run(ctx, controller) }
			return kindcontroller.RunAll(ctx, append(run, drives)...)
		}
		leading := startLeading(ctx, o.LeaderElection, clientset, lead)
		defer leading.Wait()
	}
	defer cancel(nil)
	err = server.PrepareRun().RunWithContext(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// liveReads brings up to date what is read, hosts and their settings.
type liveReads struct {
	*live.Refresher
	*firmware.Reader
}

// watchedFirmware keeps the HostFirmwareSettings of hosts, and can be watched.
type watchedFirmware struct {
	*firmware.Keeper
	*kind.Records[*metal3api.HostFirmwareSettings]
}

// watchedComponents does the same for the HostFirmwareComponents.
type watchedComponents struct {
	*firmware.ComponentKeeper
	*kind.Records[*metal3api.HostFirmwareComponents]
}

// secretsForReads returns a client for the Secrets of the cluster, for reads of hosts. It has no
// rate limit, because reads must not wait for one; how many Secrets they read at a time is limited
// elsewhere. It returns nil if there is no cluster.
func secretsForReads(kube *rest.Config) (corev1.SecretsGetter, error) {
	if kube == nil {
		return nil, nil
	}
	kube = rest.CopyConfig(kube)
	kube.QPS = -1
	return corev1.NewForConfig(kube)
}

// config returns the configuration of the server for the options.
func (o *Options) config() (*genericapiserver.RecommendedConfig, error) {
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.ParseIP("127.0.0.1")}); err != nil {
		return nil, fmt.Errorf("creating a self-signed certificate: %w (--cert-dir is the directory in which it is kept; to use your own certificate, set --tls-cert-file and --tls-private-key-file)", err)
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	apiserver.AddOpenAPI(generic, Version)
	if err := o.Run.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	if err := o.Recommended.ApplyTo(generic); err != nil {
		return nil, err
	}
	reviewGetsOfHostsOnce(generic)
	// A console lasts as long as somebody uses it.
	generic.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString("console"))
	// This also limits how long the shutdown waits for requests in progress.
	generic.Config.RequestTimeout = min(generic.Config.RequestTimeout, time.Minute)
	return generic, nil
}
