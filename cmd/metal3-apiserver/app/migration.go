// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
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
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/foresight"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

// migration has the options that import and export have in common: where metal3-apiserver
// stores its objects, and how to reach the cluster.
type migration struct {
	options    *Options
	kubeconfig string
	service    string
	dryRun     bool
	// etcd is the store's, once that is open.
	etcd storagebackend.Config
}

func newMigration() *migration {
	return &migration{options: NewOptions(), service: "metal3-system/metal3-apiserver:443"}
}

// addFlags adds the flags that both commands have. addOwn adds those of the command.
func (m *migration) addFlags(cmd *cobra.Command, addOwn func(*pflag.FlagSet)) {
	cmd.PreRun = func(*cobra.Command, []string) { quietLibraries() }
	var fss cliflag.NamedFlagSets
	fs := fss.FlagSet("Migration")
	addOwn(fs)
	fs.BoolVar(&m.dryRun, "dry-run", m.dryRun, "Report what would be done, and change nothing.")
	fs.StringVar(&m.service, "apiservice-service", m.service, "The Service by which kube-apiserver reaches metal3-apiserver, as NAMESPACE/NAME:PORT.")
	fs.StringVar(&m.kubeconfig, "kubeconfig", m.kubeconfig, "File with the address of the cluster and the credentials for it. Default: the cluster in which the command runs.")
	m.options.addStorageFlags(fss.FlagSet("Storage"))
	componentoptions.BindLeaderElectionFlags(&m.options.LeaderElection, fss.FlagSet("Leader election"))
	for _, fs := range fss.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, fss, columns)
}

// quietLibraries drops the logs of libraries, unless -v is 1 or greater. The command itself prints
// what it does, and its error says why it cannot continue.
func quietLibraries() {
	if verbose() {
		return
	}
	klog.StopFlushDaemon() // the daemon uses the logger that is set below
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
}

// verbose reports whether -v is 1 or greater.
func verbose() bool { return klog.V(1).Enabled() }

func (m *migration) validate() error {
	var errs []error
	m.options.validateStorage(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) })
	return joinOnOneLine(errs)
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

// target returns where kube-apiserver finds metal3-apiserver.
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

// openStore opens the store of metal3-apiserver. The embedded etcd can run in only one process
// at a time: it runs in this one until the store is closed.
func (m *migration) openStore(ctx context.Context) (*migrate.Store, error) {
	etcdOptions := *m.options.Recommended.Etcd
	stopEtcd := func() {}
	if len(etcdOptions.StorageConfig.Transport.ServerList) == 0 {
		level := zapcore.ErrorLevel
		if verbose() {
			level = zapcore.WarnLevel
		}
		etcd, err := startEmbeddedEtcd(ctx, m.options.DataDir, m.options.DataDirQuota, level)
		if err != nil {
			return nil, err
		}
		etcdOptions.StorageConfig.Transport.ServerList = []string{etcd.Endpoint}
		stopEtcd = etcd.Close
	} else if err := reachEtcd(ctx, etcdOptions.StorageConfig); err != nil {
		return nil, err
	}
	// Reads from a watch cache could miss this process's own writes.
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
	m.etcd = etcdOptions.StorageConfig
	return store, nil
}

// underOperator returns what the operator would do to machines that metal3-apiserver leaves alone.
func (m *migration) underOperator(ctx context.Context, hosts []*metal3api.BareMetalHost) (harms []string, err error) {
	etcd, err := newEtcdClient(m.etcd.Transport)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, etcd.Close()) }()
	restoredAt, err := newEtcdCounter(etcd, m.etcd.Prefix, "restored-at").Get(ctx)
	if err != nil {
		return nil, err
	}
	return foresight.UnderOperator(hosts, restoredAt), nil
}

// restored returns why the store, which is open, seems to be restored from a backup, or another one; empty if it does not.
func (m *migration) restored(ctx context.Context) (reason string, err error) {
	config, err := clusterConfig(m.kubeconfig)
	if err != nil {
		return "", err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	etcd, err := newEtcdClient(m.etcd.Transport)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, etcd.Close()) }()
	return manager.New(manager.Config{
		Election: m.options.LeaderElection, Leases: kube.CoordinationV1(), Count: newEtcdCounter(etcd, m.etcd.Prefix, "count"),
	}).SeemsRestored(ctx)
}
