package main

import (
	"bytes"
	"encoding/json"
	"html/template"
)

// bigFrameBytes is the frame of bigFrame.
const bigFrameBytes = 1 << 20

// stackStep is the most that useStack's frame takes, in bytes: its variable of stackFrame, and 128 for the rest.
const (
	stackFrame = 1 << 10
	stackStep  = stackFrame + 128
)

// useStack needs up to n bytes of stack, not much less, and touches every page of it. It
// allocates nothing.
//
//go:noinline
func useStack(n int) byte {
	var frame [stackFrame]byte
	frame[n&(stackFrame-1)] = byte(n)
	if n >= 2*stackStep {
		frame[0] += useStack(n - stackStep)
	}
	return frame[0] + frame[stackFrame-1]
}

// page is what a handler makes of a request: data that comes as JSON, in a template.
type page struct {
	Title string            `json:"title"`
	User  map[string]string `json:"user"`
	Items []item            `json:"items"`
}

type item struct {
	Name  string   `json:"name"`
	Price float64  `json:"price"`
	Tags  []string `json:"tags"`
}

const pageJSON = `{"title":"Basket","user":{"name":"Ada <b>","city":"Turin"},"items":[` +
	`{"name":"tea","price":3.5,"tags":["green","loose"]},{"name":"cup","price":12,"tags":["blue"]},` +
	`{"name":"spoon","price":4.25,"tags":[]}]}`

var pageTemplate = template.Must(template.New("page").Parse(`<h1>{{.Title}} of {{.User.name}}</h1>
{{define "tags"}}{{range .}}<i>{{.}}</i>{{end}}{{end}}<ul>{{range $i, $item := .Items}}
<li id="{{$i}}" data-name="{{$item.Name}}"><a href="/item?name={{$item.Name}}">{{$item.Name}}</a>
{{printf "%.2f" $item.Price}}{{if $item.Tags}} {{template "tags" $item.Tags}}{{end}}</li>{{end}}</ul>
`))

// renderPage decodes the JSON, renders the template and encodes what it has decoded.
func renderPage() ([]byte, error) {
	var p page
	if err := json.Unmarshal([]byte(pageJSON), &p); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return append(out.Bytes(), encoded...), nil
}
