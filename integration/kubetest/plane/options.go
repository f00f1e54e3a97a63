package plane

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// Options say what a control plane is like.
type Options struct {
	Dir                   string         // for keys, kubeconfigs, logs and data; empty or not there
	Address               netip.Addr     // the API server's; one of this host
	Port                  uint16         // the API server's; 0 = one that is free
	Ranges                []netip.Prefix // of ClusterIPs: one, or one of each family
	Users                 []User         // besides Admin and Proxy
	Console               bool           // obey lines
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// User names the user of a kubeconfig.
type User struct {
	Name   string
	Groups []string
}

// The users that every control plane has: one who may do all, and one who may do what a service proxy needs.
var (
	Admin = User{Name: "admin", Groups: []string{"system:masters"}}
	Proxy = User{Name: "system:kube-proxy"}
)

// ParseOptions reads the flags of "kubetest up". It says a mistake, and the usage, on standard error.
func ParseOptions(args []string) (Options, error) {
	var o Options
	fs := flag.NewFlagSet("kubetest up", flag.ContinueOnError)
	fs.StringVar(&o.Dir, "dir", "", "`folder` for keys, kubeconfigs, logs and data; empty, or it is made")
	fs.TextVar(&o.Address, "bind-address", netip.MustParseAddr("127.0.0.1"),
		"`address` of this host at which the API server is reached")
	port := fs.Uint("port", 0, "the API server's `port`; 0 is one that is free")
	ranges := fs.String("service-cidr", "10.96.0.0/16", "`range` of ClusterIPs, or two of them with a comma between")
	fs.Func("user", "`NAME[=GROUP,…]` to write a kubeconfig for (repeatable)", func(s string) error {
		u, err := parseUser(s)
		o.Users = append(o.Users, u)
		return err
	})
	fs.BoolVar(&o.Console, "stdin", false,
		"obey lines 'start|stop|kill|pause|cont PROGRAM', answer 'ok' or 'error …', and end with them")
	fs.Func("apiserver-arg", "`argument` for kube-apiserver besides (repeatable)", adder(&o.APIServerArgs))
	fs.Func("controller-manager-arg", "`argument` for kube-controller-manager besides (repeatable)",
		adder(&o.ControllerManagerArgs))
	if err := fs.Parse(args); err != nil {
		return o, err // said with the usage
	}
	err := o.complete(fs.Args(), *port, *ranges)
	if err != nil {
		fmt.Fprintln(fs.Output(), "kubetest up:", err)
	}
	return o, err
}

func adder(to *[]string) func(string) error {
	return func(s string) error {
		*to = append(*to, s)
		return nil
	}
}

// complete takes over what a flag alone does not tell, and says all that is wrong.
func (o *Options) complete(rest []string, port uint, ranges string) (err error) {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unknown argument %q", rest[0]))
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("--dir is missing: name a folder"))
	} else if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		errs = append(errs, err)
	}
	if o.Address.IsUnspecified() {
		errs = append(errs, fmt.Errorf("--bind-address %s: name one address, which goes into the certificate", o.Address))
	}
	if o.Port = uint16(port); uint(o.Port) != port {
		errs = append(errs, fmt.Errorf("--port %d: at most 65535", port))
	}
	for r := range strings.SplitSeq(ranges, ",") {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("--service-cidr: %w", err))
		}
		o.Ranges = append(o.Ranges, prefix.Masked())
	}
	return errors.Join(append(errs, distinct(o.users()))...)
}

// users are all whom kubeconfigs are written for.
func (o *Options) users() []User { return append([]User{Admin, Proxy}, o.Users...) }

func parseUser(s string) (User, error) {
	name, groups, _ := strings.Cut(s, "=")
	u := User{Name: name, Groups: strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })}
	if name == "" {
		return u, errors.New("a name is missing")
	}
	return u, nil
}

// distinct sees that each user has a file for himself.
func distinct(users []User) error {
	var files []string
	for _, u := range users {
		if slices.Contains(files, u.file()) {
			return fmt.Errorf("--user %s: another user's file is %s already", u.Name, u.file())
		}
		files = append(files, u.file())
	}
	return nil
}

// file is the kubeconfig's name. It has no colon, which divides the paths in the variable KUBECONFIG.
func (u User) file() string { return strings.NewReplacer(":", "-", "/", "-").Replace(u.Name) + ".conf" }

func (o *Options) path(name string) string { return filepath.Join(o.Dir, name) }
