package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// needs has the tests behind each need of docs/knot-needs.md, in the order of that page: those of this folder, and those of others
// behind the folder's path from here.
var needs = []struct{ need, tests string }{
	{"port 80 and port 443 at once", "TestSeveralAddresses TestHandOverOfSeveralAddresses"},
	{"HTTP to HTTPS, `www` to the name without", "TestSeveralAddresses TestPlacesOfRedirects internal/redirect:TestToHTTPS internal/redirect:TestHandle"},
	{"several sites and certificates", "TestConfiguration TestServesHTTPS TestTLSFlags"},
	{"rewrites, patterns with groups", "TestPHPApplications internal/rewrite:TestTargets"},
	{"a proxy with WebSocket and event streams", "TestRecipes ../../knot/proxy:TestTunnel ../../knot/proxy:TestEvents"},
	{"a front controller in PHP", "TestPHPApplications ../../knot/proxy:TestPHP"},
	{"the client's address behind a balancer", "TestBehindABalancer ../../knot:TestCountsForClient"},
	{"the PROXY protocol", "TestAddressesChange ../../knot:TestProxyProtocol ../../knot:TestProxyProtocolRefused"},
	{"time-outs by path", "TestTimeoutsByPath"},
	{"an upload of 2 GB in constant memory", "TestLargeUpload"},
	{"compression of JSON from backends", "TestHeadersAndCompression TestCacheOfStickyClients ../../knot/compress:TestWays"},
	{"a cache for responses of backends", "TestCache TestCacheOfStickyClients internal/cache:TestMusts internal/cache/rfc:TestStore internal/cache/rfc:TestUse"},
	{"names and passwords", "TestConfiguration internal/site:TestPasswords"},
	{"allow and deny by network", "TestWhoMayCome TestBehindABalancer internal/access:TestAccess"},
	{"a page for maintenance", "TestMaintenanceOfSites"},
	{"weights, canary", "TestBalancing ../../knot/proxy:TestWeights ../../knot/proxy:TestCanary"},
	{"sticky sessions", "TestBalancing TestCacheOfStickyClients ../../knot/proxy:TestSticky"},
	{"health checks", "TestHealthChecks ../../knot/proxy:TestChecks"},
	{"limits by key", "TestWhoMayCome TestBehindABalancer internal/limit:TestKeys"},
	{"a log in JSON", "TestLogsOfSites ../../knot/internal/accesslog:TestJSONLines"},
	{"an id of the request in the log and for backends", "TestRequestIDs internal/requestid:TestPrepare"},
	{"metrics", "TestMetricsAndHealthPages internal/metrics:TestMetrics"},
	{"HSTS, CSP", "TestHeadersAndCompression internal/headers:TestResponses"},
	{"CORS with preflight", "TestRecipes internal/headers:TestCORS"},
	{"header lines removed, and set towards backends", "TestHeadersAndCompression internal/headers:TestBackends"},
	{"ETag, files compressed beforehand", "../../knot:TestConditionalRequests ../../knot:TestPrecompressed"},
	{"large folders", "TestLargeDirectory"},
	{"another configuration while it runs", "TestEverythingIsReloaded TestAddressesChange"},
	{"... under load without an error", "TestHandOverLosesNoRequest"},
	{"another version of the program under load", "TestHandOverLosesNoRequest TestHandOverWhileAddressesChange"},
	{"a bad configuration changes nothing", "TestConfiguration TestEverythingIsReloaded TestAddressesChange"},
	{"rotation of logs", "TestHangupOpensTheLogAnew TestLogsOfSites"},
	{"sockets of systemd", "TestSystemd TestNamedSockets"},
	{"a file system that is read-only, another user than root", "TestNothingToWrite TestUser"},
	{"IPv6", "TestIPv6"},
	{"HTTP/3", "TestHTTP3 TestHTTP3Attacks TestHTTP3Reloads TestHTTP3HandOver"},
	{"certificates by ACME for several hosts", "TestACMECertificates acmetest:TestByHTTP acmetest:TestByTLS"},
	{"... for `*.example.org`, by DNS", "acmetest:TestStarByDNS"},
	{"OCSP stapling", "TestStaplesAnswers internal/staple:TestStaple"},
	{"certificates of clients by site", "TestWhoMayCome internal/clientcert:TestHosts"},
	{"access by header, method, cookie", "internal/access:TestAccess TestWhoMayCome"},
	{"limits on bodies by site and path", "TestBodiesBySite TestLargeUpload"},
	{"error pages by status, for backends too", "TestErrorPagesForBackends"},
	{"the page of an application of one page", "TestRecipes internal/site:TestFallback internal/site:TestTry"},
	{"access decided by another server", "TestWhoMayCome internal/forwardauth:TestPasses"},
	{"server-side includes, templates", ""},
	{"a configuration in several files, a log by site", "internal/config:TestInclude TestLogsOfSites"},
}

// TestNeeds: the page says yes to what has tests, and to nothing else.
func TestNeeds(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| (yes|no) \|`).FindAllStringSubmatch(string(testenv.Need(os.ReadFile("../../docs/knot-needs.md"))(t)), -1)
	testenv.MustEqual(t, len(rows), len(needs), "rows of the page")
	known := make(map[string]string) // text of the tests of a folder
	for i, n := range needs {
		testenv.Equal(t, rows[i][1], n.need, "row %d", i+1)
		testenv.Equal(t, rows[i][2] == "yes", n.tests != "", "%s: the page says %s", n.need, rows[i][2])
		for name := range strings.FieldsSeq(n.tests) {
			folder, test, elsewhere := strings.Cut(name, ":")
			if !elsewhere {
				folder, test = ".", name
			}
			if known[folder] == "" {
				for _, file := range testenv.Need(filepath.Glob(folder + "/*_test.go"))(t) {
					known[folder] += string(testenv.Need(os.ReadFile(file))(t))
				}
			}
			testenv.True(t, strings.Contains(known[folder], "\nfunc "+test+"(t *testing.T) {"), "%s: there is no test %s in %s", n.need, test, folder)
		}
	}
}
