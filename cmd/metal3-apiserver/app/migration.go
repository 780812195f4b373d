package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

// migration is what import and export have in common: where our server stores its
// objects, and the cluster.
type migration struct {
	options    *Options
	kubeconfig string
	service    string
	dryRun     bool
}

func newMigration() *migration {
	return &migration{options: NewOptions(), service: "metal3-system/metal3-apiserver:443"}
}

// addFlags adds those that both commands have; own are the command's.
func (m *migration) addFlags(cmd *cobra.Command, own func(*pflag.FlagSet)) {
	cmd.PreRun = func(*cobra.Command, []string) { quietLibraries() }
	var fss cliflag.NamedFlagSets
	fs := fss.FlagSet("Migration")
	own(fs)
	fs.BoolVar(&m.dryRun, "dry-run", m.dryRun, "Change nothing, and tell what would be done.")
	fs.StringVar(&m.service, "apiservice-service", m.service, "Where kube-apiserver finds metal3-apiserver: NAMESPACE/NAME:PORT of its Service.")
	fs.StringVar(&m.kubeconfig, "kubeconfig", m.kubeconfig, "File that says where the cluster is and who we are. Default: the cluster that we run in.")
	m.options.addStorageFlags(fss.FlagSet("Storage"))
	componentoptions.BindLeaderElectionFlags(&m.options.LeaderElection, fss.FlagSet("Leader election"))
	for _, fs := range fss.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, fss, columns)
}

// quietLibraries drops what the libraries log, unless -v is 1 or more: the command prints
// what it does, and why it cannot go on is in the error that it ends with.
func quietLibraries() {
	if verbose() {
		return
	}
	klog.StopFlushDaemon() // it uses what is set here
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
}

func verbose() bool { return klog.V(1).Enabled() }

func (m *migration) validate() error {
	var errs []error
	m.options.validateStorage(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) })
	return oneLine(errs)
}

func (m *migration) cluster() (*migrate.Cluster, error) {
	config, err := clusterConfig(m.kubeconfig)
	if err != nil {
		return nil, err
	}
	return migrate.NewCluster(config, apiserver.Scheme)
}

func (m *migration) lease() types.NamespacedName {
	l := m.options.LeaderElection
	return types.NamespacedName{Namespace: l.ResourceNamespace, Name: l.ResourceName}
}

// target is where our server is to be found.
func (m *migration) target(caFile string) (target migrate.Target, err error) {
	namespace, rest, _ := strings.Cut(m.service, "/")
	name, port, _ := strings.Cut(rest, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || namespace == "" || name == "" || number == 0 {
		return target, fmt.Errorf("--apiservice-service: %q is not NAMESPACE/NAME:PORT", m.service)
	}
	target = migrate.Target{Namespace: namespace, Name: name, Port: int32(number)}
	if caFile != "" {
		if target.CA, err = os.ReadFile(caFile); err != nil {
			return target, fmt.Errorf("--apiservice-ca-file: %w", err)
		}
	}
	return target, nil
}

// openStore opens what our server stores its objects in. The embedded etcd runs in
// one process at a time: in this one, until the store is closed.
func (m *migration) openStore(ctx context.Context) (*migrate.Store, error) {
	etcdOptions := *m.options.Recommended.Etcd
	stopEtcd := func() {}
	if len(etcdOptions.StorageConfig.Transport.ServerList) == 0 {
		level := zapcore.ErrorLevel
		if verbose() {
			level = zapcore.WarnLevel
		}
		etcd, err := startEmbeddedEtcd(ctx, m.options.DataDir, level)
		if err != nil {
			return nil, err
		}
		etcdOptions.StorageConfig.Transport.ServerList = []string{etcd.Endpoint}
		stopEtcd = etcd.Close
	} else if err := reachEtcd(ctx, etcdOptions.StorageConfig); err != nil {
		return nil, err
	}
	// A watch cache would be behind our own writes.
	etcdOptions.EnableWatchCache, etcdOptions.SkipHealthEndpoints = false, true
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	if err := etcdOptions.ApplyTo(&config.Config); err != nil {
		stopEtcd()
		return nil, err
	}
	store, err := migrate.NewStore(apiserver.Scheme, config.RESTOptionsGetter)
	if err != nil {
		stopEtcd()
		return nil, err
	}
	store.OnClose(stopEtcd)
	return store, nil
}
