package admit

// A Report is what a Ledger and the Admissions say of themselves. Each adds its part: Ledger.Report, Admission.Report.
type Report struct {
	Admitted  uint64 // tasks, at the entrances
	Deferred  uint64 // of the admitted: tasks that had to wait for a resource first
	Refused   uint64
	Resources []ResourceReport // in the order of Ledger.Add, then limits
}

// A ResourceReport is the state of a resource.
type ResourceReport struct {
	Name        string
	Used        float64 // at last, in the resource's unit
	Limit       float64 // 0: not found yet
	Utilisation float64 // used, in parts of the limit: 0 to 1
	Trend       float64 // change of the utilisation per second
	State       State
}
