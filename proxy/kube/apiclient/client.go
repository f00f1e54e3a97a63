// Package apiclient sends requests to an API server: lists and watches, events, scales of workloads. It is made of
// client-go's REST clients of the API groups that portald uses.
package apiclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portald/portald/proxy/secret"
)

// Options are the API server to use, and how.
type Options struct {
	Kubeconfig         string     // file; empty: none
	Master             secret.URL // in place of the one that the kubeconfig has; empty: that one
	QPS                float32    // requests a second; 0 means client-go's 5, negative no limit
	Burst              int        // requests at once; 0 means client-go's 10
	ContentType        string     // of what is sent; empty: protobuf
	AcceptContentTypes string     // of what is asked for; empty: ContentType
	UserAgent          string     // empty: client-go's, with the program's name
}

// Client is a connection to an API server. Safe for concurrent use.
type Client struct {
	groups map[schema.GroupVersion]rest.Interface
	server string
}

// New returns a client of an API server: that of the pod's own cluster if neither a kubeconfig nor a URL is set. It
// sends no request. An error means that the options, or the files that they name, are invalid.
func New(o Options) (*Client, error) {
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = o.QPS, o.Burst
	config.ContentType = cmp.Or(o.ContentType, runtime.ContentTypeProtobuf)
	config.AcceptContentTypes = o.AcceptContentTypes
	config.UserAgent = cmp.Or(o.UserAgent, rest.DefaultKubernetesUserAgent())
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(Scheme, Codecs).WithoutConversion()
	if err := takeUser(config); err != nil {
		return nil, err
	}
	c := &Client{groups: map[schema.GroupVersion]rest.Interface{}, server: config.Host}
	if err := c.connect(config); err != nil {
		return nil, fmt.Errorf("prepare for API server %s: %w", config.Host, err)
	}
	return c, nil
}

// connect makes the clients of all groups, which share connections, and a limit of requests if one is set.
func (c *Client) connect(config *rest.Config) error {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if config.QPS > 0 {
		if config.Burst <= 0 {
			return errors.New("a limit of requests a second needs a number of requests at once, which is not set")
		}
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	for _, group := range Scheme.PrioritizedVersionsAllGroups() {
		own := *config
		own.GroupVersion, own.APIPath = &group, "/apis"
		if group.Group == "" {
			own.APIPath = "/api"
		}
		if c.groups[group], err = rest.RESTClientForConfigAndClient(&own, shared); err != nil {
			return err
		}
	}
	return nil
}

// Server is the URL of the API server without credentials, for messages.
func (c *Client) Server() string { return c.server }

// takeUser moves the user of the server's URL to where no message shows it: libraries show the URL in their errors.
func takeUser(config *rest.Config) error {
	if !strings.Contains(config.Host, "@") {
		return nil
	}
	text := config.Host
	if !strings.Contains(text, "://") { // a scheme may be missing
		text = "//" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return fmt.Errorf("prepare for API server %s: it is no URL", secret.NewURL(config.Host))
	}
	if u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	config.Username, config.Password = u.User.Username(), password
	config.BearerToken, config.BearerTokenFile = "", "" // the URL comes before them
	u.User = nil
	config.Host = strings.TrimPrefix(u.String(), "//")
	return nil
}

func restConfig(o Options) (*rest.Config, error) {
	if o.Kubeconfig == "" && o.Master.IsZero() {
		return inClusterConfig()
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: o.Master.Reveal()}},
	).ClientConfig()
	switch {
	case err == nil:
		return config, nil
	case o.Kubeconfig == "":
		return nil, fmt.Errorf("use API server %s: %w", o.Master, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("read kubeconfig %s: it names no cluster; write one, and a context that is the "+
			"current-context",
			o.Kubeconfig)
	}
	return nil, fmt.Errorf("read kubeconfig %s: %w", o.Kubeconfig, err)
}

func inClusterConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("find the API server: this is not a pod (KUBERNETES_SERVICE_HOST is not set); " +
			"name a kubeconfig, or the server's URL")
	}
	if err != nil {
		return nil, fmt.Errorf("read the pod's service account: %w; mount its token, or name a kubeconfig", err)
	}
	return config, nil
}
