package admit

// Moments are the mean and the variance of a quantity.
type Moments struct {
	Mean, Variance float64
}

// Add adds the share p of a mixture; Variance is the second moment until Centre.
func (m *Moments) Add(p float64, of Moments) {
	m.Mean += p * of.Mean
	m.Variance += p * (of.Variance + of.Mean*of.Mean)
}

// Centre makes the variance of the second moment.
func (m *Moments) Centre() { m.Variance = max(m.Variance-m.Mean*m.Mean, 0) }

// Likely is how much a task that is found at a place takes on average. Tasks that hold more may stay longer, as downloads of
// slow clients do: then it is more than what a task that comes there is going to take. It is the mean square divided by the
// mean, as if the time were in proportion.
func (m Moments) Likely() float64 {
	if m.Mean <= 0 {
		return 0
	}
	return m.Mean + m.Variance/m.Mean
}
