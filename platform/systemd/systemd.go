// Package systemd speaks with the systemd that runs this process: it reports readiness, and stores descriptors that the
// next process of the unit is passed, so that listeners and connections outlive a restart or a crash. See
// systemd.service(5) of Type=notify, sd_notify(3), and FileDescriptorStoreMax= for the store.
//
//	if systemd.Runs() {
//		inherited := systemd.Passed()                                                  // stored by the process before
//		err := systemd.Store(ctx, map[string]*os.File{"listener": f})                  // for the process after
//		err = systemd.Notify("READY=1", "STATUS=serves 12 Services")
//	}
//
// All calls wait until systemd has processed the message, a few seconds at most. On other systems and without systemd
// nothing runs this process, nothing is passed, and messages go nowhere.
package systemd
