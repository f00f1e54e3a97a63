package plane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := ParseOptions(strings.Fields("--dir /x --bind-address 192.0.2.7 --port 6443 --stdin" +
		" --service-cidr 10.96.0.0/12,fd00:10:96::/112 --user jane --user system:node:a=system:nodes,others " +
		"--apiserver-arg=-v=4"))
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir != "/x" || o.Address != netip.MustParseAddr("192.0.2.7") || o.Port != 6443 || !o.Console {
		t.Errorf("got %+v", o)
	}
	if !slices.Equal(o.APIServerArgs, []string{"-v=4"}) {
		t.Errorf("arguments %q", o.APIServerArgs)
	}
	if got := ranges(o); got != "10.96.0.0/12,fd00:10:96::/112" {
		t.Errorf("ranges %s", got)
	}
	var users []string
	for _, u := range o.users() {
		users = append(users, u.file()+" "+strings.Join(u.Groups, " "))
	}
	want := []string{
		"admin.conf system:masters", "system-kube-proxy.conf ", "jane.conf ", "system-node-a.conf system:nodes others",
	}
	if !slices.Equal(users, want) {
		t.Errorf("users %q, want %q", users, want)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, args := range []string{
		"", "--dir /x more", "--dir /x --bind-address 0.0.0.0", "--dir /x --bind-address here", "--dir /x --port 65536",
		"--dir /x --service-cidr 10.96.0.0", "--dir /x --user =group", "--dir /x --user a:b --user a-b",
	} {
		if _, err := ParseOptions(strings.Fields(args)); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestAFolderInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := emptyFolder(dir); err != nil {
		t.Error(err)
	}
	if err := emptyFolder(dir + "/a/b"); err != nil {
		t.Error(err)
	}
	if err := emptyFolder(dir); err == nil {
		t.Error("a folder with something in it was taken")
	}
}
