package bgraph

// Public makes the *Graph that programs see of a Snapshot. The package bgraph that programs import sets it when it is initialised.
var Public func(*Snapshot) any
