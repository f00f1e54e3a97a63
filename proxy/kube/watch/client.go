package watch

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portald/portald/proxy/secret"
)

// ClientOptions are the API server to use, and how.
type ClientOptions struct {
	Kubeconfig         string     // file; empty: none
	Master             secret.URL // in place of the one that the kubeconfig has; empty: that one
	QPS                float32    // requests a second; 0 means client-go's 5, negative no limit
	Burst              int        // requests at once; 0 means client-go's 10
	ContentType        string     // of what is sent; empty: protobuf
	AcceptContentTypes string     // of what is asked for; empty: ContentType
	UserAgent          string     // empty: client-go's, with the program's name
}

// Client is a connection to an API server.
type Client struct {
	kubernetes.Interface
	Server string // URL without credentials, for messages
}

// NewClient returns a client of an API server: that of the pod's own cluster if neither a kubeconfig nor a URL is set.
// It sends no request. An error means that the options, or the files that they name, are invalid.
func NewClient(o ClientOptions) (*Client, error) {
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = o.QPS, o.Burst
	config.ContentType = cmp.Or(o.ContentType, runtime.ContentTypeProtobuf)
	config.AcceptContentTypes = o.AcceptContentTypes
	config.UserAgent = o.UserAgent
	if err := takeUser(config); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare for API server %s: %w", config.Host, err)
	}
	return &Client{Interface: client, Server: config.Host}, nil
}

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

func restConfig(o ClientOptions) (*rest.Config, error) {
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
