package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// lasting are clients with a connection each, which they open again when it ends.
type lasting struct {
	*bed.Bed
	wg sync.WaitGroup

	mu    sync.Mutex
	on    map[string]int // connections by the pod that they are to
	total totals
}

// totals are of all clients.
type totals struct{ opened, broken int } // connections; requests without an answer

// start runs so many clients, which ask something about each second.
func (l *lasting) start(ctx context.Context, clients int) {
	l.on = map[string]int{}
	for range clients {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				l.connection(ctx)
			}
		})
	}
}

func (l *lasting) connection(ctx context.Context) {
	c, err := bed.Dial(bed.AnswerTimeout, l.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(bed.AnswerTimeout))
	r := bufio.NewReader(c)
	pod, err := r.ReadString('\n')
	if err != nil {
		return
	}
	pod = strings.TrimSpace(pod)
	l.count(pod, 1)
	defer l.count(pod, -1)
	for ctx.Err() == nil {
		c.SetReadDeadline(time.Now().Add(700*time.Millisecond + rand.N(600*time.Millisecond)))
		if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return // it was closed while nothing was asked
		}
		if err := l.ask(c, r); err != nil {
			l.add(totals{broken: 1})
			return
		}
	}
}

func (l *lasting) ask(c net.Conn, r io.Reader) error {
	c.SetDeadline(time.Now().Add(bed.AnswerTimeout))
	if _, err := io.WriteString(c, "question"); err != nil {
		return err
	}
	_, err := io.ReadFull(r, make([]byte, len("question")))
	return err
}

func (l *lasting) count(pod string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on[pod] += n
	l.total.opened += max(0, n)
}

func (l *lasting) add(t totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.opened += t.opened
	l.total.broken += t.broken
}

func (l *lasting) state() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

func (l *lasting) forgive() { l.add(totals{broken: -l.state().broken}) }

// skew is the connections of each pod, and of the fullest in shares of an even one.
func (l *lasting) skew(pods int) (text string, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, most := 0, 0
	for i := range pods {
		n := l.on[bed.PodName(i)]
		text += fmt.Sprintf("%5d", n)
		all, most = all+n, max(most, n)
	}
	share = float64(most*pods) / float64(max(all, 1))
	return fmt.Sprintf("%s   %.2f   %6d %6d", text, share, l.total.opened, l.total.broken), share
}

// A pod is replaced, and clients keep their connections: without an age the new one has nothing to do, with one it has
// its share soon, and requests have their answers.
func TestMaxAgeEvensOutRollout(t *testing.T) {
	const clients = 120
	for _, age := range []string{"", "2s±25%"} {
		t.Run("age "+age, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0, 1)
			stop := b.ServePods(2)
			cart := func(pods ...int) bed.Service {
				s := b.Cart(pods...)
				if age != "" {
					s.Annotations = []string{fmt.Sprintf("portald.io/max-age: %q", age)}
				}
				return s
			}
			d := b.Start(cart(0, 1, 2))
			l := &lasting{Bed: b}
			ctx, end := context.WithCancel(t.Context())
			l.start(ctx, clients)
			defer l.wg.Wait()
			defer end()
			b.Eventually("all to be connected", func() bool { return l.state().opened >= clients })
			show := func(when string) float64 {
				text, share := l.skew(3)
				t.Logf("%-28s%s", when, text)
				return share
			}
			t.Logf("%-28s pod0 pod1 pod2  most/even  opened broken", "max-age "+age)
			before := show("before")
			d.Apply(cart(0, 1))
			stop[0]()
			b.Eventually("clients of the pod that ended to be connected to others", func() bool {
				return l.state().opened >= clients*4/3 // each pod had a third of them
			})
			b.ServePods(2)
			d.Apply(cart(0, 1, 2))
			time.Sleep(500 * time.Millisecond)
			l.forgive() // what the pod that ended left open
			rolledOut := show("pod2 is new")
			time.Sleep(5 * time.Second)
			after := show("5 s later")
			if before > 1.2 || age == "" && after < 1.4 || age != "" && after > 1.25 {
				t.Errorf("skew %.2f before, %.2f after the rollout, %.2f then", before, rolledOut, after)
			}
			// A question that is sent while the end of a quiet connection is on its way has no answer: few can.
			if n := l.state(); n.broken*100 > n.opened {
				t.Errorf("%d requests had no answer, on %d connections", n.broken, n.opened)
			}
		})
	}
}
