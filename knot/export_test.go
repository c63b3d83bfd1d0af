package knot

// ForgetWhyHeld lets the log say again why handlers run on goroutines.
func ForgetWhyHeld() { saidWhyHeld.Store(false) }
