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

// Likely is how much a task takes on average of those that are found at a place of which nothing more is known. Where those stay
// longer that hold more, like downloads of slow clients, that is more than what one that comes there is going to
// take: the mean square divided by the mean if the time is in proportion.
func (m Moments) Likely() float64 {
	if m.Mean <= 0 {
		return 0
	}
	return m.Mean + m.Variance/m.Mean
}
