// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

// The clients of etcd in k8s.io/apiserver send their requests to all members in turn. They give up a connection after
// 40 seconds without an answer, and until then every third request would hang if one of three members is
// suspended, is cut off from the other ones or waits for its disk. So each member is asked all the time, and
// the connections to one that does not answer, while another one does, are closed.
const (
	// lineProbeTimeout is how long a member may take to answer.
	lineProbeTimeout = 600 * time.Millisecond
	// lineProbePause is between two rounds.
	lineProbePause = 300 * time.Millisecond
	// lineMisses is how many rounds a member has to miss, the last of them while another member answers. A single one
	// may be due to a moment without a processor.
	lineMisses  = 2
	dialTimeout = 20 * time.Second
)

// etcdLines are the connections to the members of an external etcd.
type etcdLines struct {
	members []*etcdMemberLine
}

// etcdMemberLine has the connections to one member.
type etcdMemberLine struct {
	address string
	client  *clientv3.Client // for probes only; its connection is not one of open
	key     []byte
	// misses is how many rounds in a row the member has not answered. Only the watch uses it.
	misses int

	mu     sync.Mutex
	silent bool
	open   map[*lineConn]struct{}
}

// lineConn is a connection that knows to which member it is.
type lineConn struct {
	net.Conn
	line *etcdMemberLine
}

// Close closes the connection.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.open, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

// newEtcdLines returns the lines to the members of config, and has config use them. It returns nil if there is
// only one member: then there is no other one to which requests could be sent.
func newEtcdLines(config *storagebackend.Config) (*etcdLines, error) {
	servers := config.Transport.ServerList
	if len(servers) < 2 {
		return nil, nil
	}
	l := &etcdLines{}
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			return nil, err
		}
		transport := config.Transport
		transport.ServerList = []string{server}
		client, err := newEtcdClient(transport)
		if err != nil {
			l.close()
			return nil, err
		}
		l.members = append(l.members, &etcdMemberLine{
			address: u.Host, client: client, key: []byte(path.Join("/", config.Prefix, "health")), open: map[*lineConn]struct{}{},
		})
	}
	config.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return l.dial, nil }
	return l, nil
}

// dial connects to a member, unless it is known not to answer.
func (l *etcdLines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, member := range l.members {
		if member.address == address {
			return member.dial(ctx, dialer, network)
		}
	}
	return dialer.DialContext(ctx, network, address)
}

func (m *etcdMemberLine) dial(ctx context.Context, dialer net.Dialer, network string) (net.Conn, error) {
	if m.isSilent() {
		return nil, fmt.Errorf("etcd at %s does not answer", m.address)
	}
	conn, err := dialer.DialContext(ctx, network, m.address)
	if err != nil {
		return nil, err
	}
	line := &lineConn{conn, m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent { // since a moment
		_ = conn.Close()
		return nil, fmt.Errorf("etcd at %s does not answer", m.address)
	}
	m.open[line] = struct{}{}
	return line, nil
}

func (m *etcdMemberLine) isSilent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent
}

// watch asks all members until ctx ends, and then closes its own connections.
func (l *etcdLines) watch(ctx context.Context) {
	defer l.close()
	for {
		l.judge(l.ask(ctx))
		select {
		case <-time.After(lineProbePause):
		case <-ctx.Done():
			return
		}
	}
}

func (l *etcdLines) close() {
	for _, member := range l.members {
		_ = member.client.Close()
	}
}

// ask asks all members at the same time, and returns the errors in their order.
func (l *etcdLines) ask(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, lineProbeTimeout)
	defer cancel()
	answers := make([]error, len(l.members))
	var asking sync.WaitGroup
	for i, member := range l.members {
		// A linearizable read, because a member without the other ones is of no use. The method of client itself would
		// retry until ctx ends.
		asking.Go(func() {
			_, answers[i] = etcdserverpb.NewKVClient(member.client.ActiveConnection()).Range(ctx, &etcdserverpb.RangeRequest{Key: member.key, CountOnly: true})
		})
	}
	asking.Wait()
	return answers
}

// judge notes which members have answered. As long as none does, no connection is closed: there may be no majority,
// as while etcd elects a leader, or this process may have had no processor.
func (l *etcdLines) judge(answers []error) {
	answered := false
	for _, err := range answers {
		answered = answered || err == nil
	}
	for i, member := range l.members {
		switch {
		case answers[i] == nil:
			member.misses = 0
			member.setSilent(false, nil)
		default:
			if member.misses++; answered && member.misses >= lineMisses {
				member.setSilent(true, answers[i])
			}
		}
	}
}

// setSilent notes whether a member answers. If it does not, its connections are closed, and requests go to the
// other ones.
func (m *etcdMemberLine) setSilent(silent bool, err error) {
	m.mu.Lock()
	changed := m.silent != silent
	m.silent = silent
	var open []*lineConn
	if silent {
		for conn := range m.open {
			open = append(open, conn)
		}
	}
	m.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
	switch {
	case changed && silent:
		klog.ErrorS(err, "A member of etcd does not answer, and gets no requests until it does", "member", m.address)
	case changed:
		klog.InfoS("The member of etcd answers again", "member", m.address)
	}
}

// quickReconnect has a client try again to connect to a member within two seconds. By default, the pauses grow to two
// minutes.
func quickReconnect() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: etcdAnswerTimeout,
	})
}
