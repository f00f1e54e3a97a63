<#
.SYNOPSIS
Captures what netsh and the network of this Windows host say, for the tests of portald.

.DESCRIPTION
Runs netsh the way portald does, and keeps arguments, exit codes, times, and output byte by byte: of the commands that
show interfaces, addresses and excluded port ranges, and of those that add an address that is there already, delete one
that is not, name an interface that does not exist, and so on. It also measures how long a new address stays tentative,
and with which error numbers sockets are refused meanwhile, on ports in use, and in excluded ranges.

It reads HNS by the calls that portald makes: networks with their types, and load balancers of
another proxy. With -Dial it tries from the node whether pods
answer, of which some are on other nodes: in an overlay network they should not.

With -Container, containers of this node dial the address that was added, and with -ServiceAddress also one of the
service CIDR. CNI plug-ins may send packets for that CIDR another way (the policy ROUTE or SDNRoute of HNS endpoints,
which are recorded). While they dial, a rule of the firewall allows TCP port 39080, and forwarding is disabled and then
enabled on the interface.

With -Count it measures how long it takes to add and remove many addresses of 198.18.0.0/15, which is for benchmarks: by
the calls of Windows that portald makes, and by a script of netsh.

Changes are made to one interface only, with addresses that no network uses (192.0.2.0/24 and 2001:db8::/32 are for
documentation) and that the next boot would remove. They are removed at the end, also after an error or Ctrl-C.

Without the rights of an administrator it captures how netsh refuses, which the tests need too: run it both ways.

The file has the names and addresses of this host's interfaces. Look through it before you give it to others. The
simulator of the tests reads it: portal/netshtest.

.PARAMETER InterfaceName
The interface that gets the addresses: interfaceName of portald's configuration. Get-NetIPInterface lists them.

.PARAMETER Path
The file that is written, in JSON. The default is capture-HOST-BUILD.json in the current folder.

.PARAMETER Address
The IPv4 address that is added and removed: one of 192.0.2.0/24.

.PARAMETER Address6
The IPv6 address that is added and removed: one of 2001:db8::/32.

.PARAMETER Dial
Addresses and TCP ports that are dialled from this node: a pod of it, and a pod of another node, such as 10.244.2.7:80.

.PARAMETER Container
IDs of running containers of pods of this node, as crictl ps prints them. They need curl.exe, which the images
nanoserver and servercore have.

.PARAMETER ServiceAddress
An IPv4 address of the cluster's service CIDR that no Service has. It is added and removed like the others.

.PARAMETER Count
How many addresses are added for the time that it takes, such as 100, 1000.

.PARAMETER Crictl
The path of crictl.exe.

.EXAMPLE
.\capture.ps1 -InterfaceName 'vEthernet (HNS Internal NIC)'

Captures everything, and prints the path of the file.

.EXAMPLE
.\capture.ps1 -InterfaceName Ethernet -WhatIf

Captures what can be had without a change of the host.
#>
[CmdletBinding(SupportsShouldProcess)]
[OutputType([string])]
param(
    [Parameter(Mandatory)]
    [ValidateNotNullOrEmpty()]
    [string] $InterfaceName,

    [ValidateNotNullOrEmpty()]
    [string] $Path = "capture-$env:COMPUTERNAME-$([Environment]::OSVersion.Version.Build).json",

    [ValidatePattern('^192\.0\.2\.\d{1,3}$')]
    [string] $Address = '192.0.2.77',

    [ValidatePattern('^2001:db8:[0-9a-f:]+$')]
    [string] $Address6 = '2001:db8::77',

    [ValidatePattern('^(\[[0-9a-f:]+\]|[0-9.]+):\d+$')]
    [string[]] $Dial = @(),

    [ValidatePattern('^[0-9a-f]+$')]
    [string[]] $Container = @(),

    [ValidatePattern('^([0-9.]+)?$')]
    [string] $ServiceAddress = '',

    [ValidateRange(1, 10000)]
    [int[]] $Count = @(),

    [ValidateNotNullOrEmpty()]
    [string] $Crictl = 'crictl.exe'
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$netsh = Join-Path -Path $env:SystemRoot -ChildPath 'System32\netsh.exe'
$timeout = [TimeSpan]::FromSeconds(30)
$capturePort = 39080

# The calls by which portald reads HNS.
$hcn = @'
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnEnumerateNetworks(string query, out IntPtr ids, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnOpenNetwork(ref Guid id, out IntPtr handle, out IntPtr error);
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnQueryNetworkProperties(IntPtr handle, string query, out IntPtr document, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnCloseNetwork(IntPtr handle);
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnEnumerateLoadBalancers(string query, out IntPtr ids, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnOpenLoadBalancer(ref Guid id, out IntPtr handle, out IntPtr error);
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnQueryLoadBalancerProperties(IntPtr handle, string query, out IntPtr document, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnCloseLoadBalancer(IntPtr handle);
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnEnumerateEndpoints(string query, out IntPtr ids, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnOpenEndpoint(ref Guid id, out IntPtr handle, out IntPtr error);
[DllImport("computenetwork.dll", CharSet = CharSet.Unicode)]
static extern int HcnQueryEndpointProperties(IntPtr handle, string query, out IntPtr document, out IntPtr error);
[DllImport("computenetwork.dll")]
static extern int HcnCloseEndpoint(IntPtr handle);

const string query = "{\"SchemaVersion\":{\"Major\":2,\"Minor\":0}}";

static string Take(IntPtr text)
{
    string copy = Marshal.PtrToStringUni(text);
    Marshal.FreeCoTaskMem(text);
    return copy;
}

static void Check(string call, int result, IntPtr error)
{
    string record = Take(error);
    if (result < 0) { throw new Exception(call + " failed with 0x" + result.ToString("x8") + " " + record); }
}

delegate int Lister(string query, out IntPtr ids, out IntPtr error);
delegate int Opener(ref Guid id, out IntPtr handle, out IntPtr error);
delegate int Reader(IntPtr handle, string query, out IntPtr document, out IntPtr error);
delegate int Closer(IntPtr handle);

static string[] Read(Lister list, Opener open, Reader read, Closer close)
{
    IntPtr text, error, handle;
    Check("HcnEnumerate", list(query, out text, out error), error);
    List<string> documents = new List<string>();
    foreach (Match found in Regex.Matches(Take(text), "[0-9A-Fa-f-]{36}"))
    {
        Guid id = new Guid(found.Value);
        Check("HcnOpen", open(ref id, out handle, out error), error);
        Check("HcnQuery", read(handle, query, out text, out error), error);
        documents.Add(Take(text));
        close(handle);
    }
    return documents.ToArray();
}

public static string[] Network()
{
    return Read(HcnEnumerateNetworks, HcnOpenNetwork, HcnQueryNetworkProperties, HcnCloseNetwork);
}

public static string[] LoadBalancer()
{
    return Read(HcnEnumerateLoadBalancers, HcnOpenLoadBalancer, HcnQueryLoadBalancerProperties, HcnCloseLoadBalancer);
}

public static string[] Endpoint()
{
    return Read(HcnEnumerateEndpoints, HcnOpenEndpoint, HcnQueryEndpointProperties, HcnCloseEndpoint);
}
'@

# The calls by which portald adds and removes IPv4 addresses. A row is a MIB_UNICASTIPADDRESS_ROW.
$iphlpapi = @'
[DllImport("iphlpapi.dll")]
static extern void InitializeUnicastIpAddressEntry(byte[] row);
[DllImport("iphlpapi.dll")]
static extern int CreateUnicastIpAddressEntry(byte[] row);
[DllImport("iphlpapi.dll")]
static extern int DeleteUnicastIpAddressEntry(byte[] row);
[DllImport("iphlpapi.dll")]
static extern int ConvertInterfaceIndexToLuid(int index, out ulong luid);

public static int Change(int index, string address, bool add)
{
    byte[] row = new byte[80];
    ulong luid;
    int code = ConvertInterfaceIndexToLuid(index, out luid);
    if (code != 0) { return code; }
    InitializeUnicastIpAddressEntry(row);
    row[0] = 2; // AF_INET
    IPAddress.Parse(address).GetAddressBytes().CopyTo(row, 4);
    BitConverter.GetBytes(luid).CopyTo(row, 32);
    BitConverter.GetBytes(uint.MaxValue).CopyTo(row, 52); // ValidLifetime
    BitConverter.GetBytes(uint.MaxValue).CopyTo(row, 56); // PreferredLifetime
    row[60] = 32; // OnLinkPrefixLength
    row[61] = 1;  // SkipAsSource
    return add ? CreateUnicastIpAddressEntry(row) : DeleteUnicastIpAddressEntry(row);
}
'@

# Runs netsh once. A name is one of the simulator's (Said) or another word.
function Invoke-Netsh {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param(
        [Parameter(Mandatory)] [string] $Name,
        [Parameter(Mandatory)] [string] $Command
    )
    $start = New-Object -TypeName System.Diagnostics.ProcessStartInfo -Property @{
        FileName               = $netsh
        Arguments              = $Command
        UseShellExecute        = $false
        CreateNoWindow         = $true
        RedirectStandardOutput = $true
        RedirectStandardError  = $true
    }
    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $process = [System.Diagnostics.Process]::Start($start)
    $out = New-Object -TypeName System.IO.MemoryStream
    $err = New-Object -TypeName System.IO.MemoryStream
    [System.Threading.Tasks.Task[]] $copies = @(
        $process.StandardOutput.BaseStream.CopyToAsync($out)
        $process.StandardError.BaseStream.CopyToAsync($err)
    )
    $ended = $process.WaitForExit([int]$timeout.TotalMilliseconds)
    $milliseconds = $clock.Elapsed.TotalMilliseconds
    if (-not $ended) {
        $process.Kill()
        $process.WaitForExit()
    }
    [void][System.Threading.Tasks.Task]::WaitAll($copies, $timeout)
    [ordered]@{
        name         = $Name
        arguments    = [string[]]($Command -split ' ')
        exitCode     = $process.ExitCode
        milliseconds = $milliseconds
        output       = [Convert]::ToBase64String($out.ToArray())
        errorOutput  = [Convert]::ToBase64String($err.ToArray())
        killed       = -not $ended
    }
}

# Runs netsh with a file of commands.
function Invoke-NetshScript {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [string[]] $Line)

    $file = [System.IO.Path]::GetTempFileName()
    try {
        $text = ($Line -join "`r`n") + "`r`n"
        [System.IO.File]::WriteAllText($file, $text, [System.Text.Encoding]::ASCII)
        $run = Invoke-Netsh -Name 'script' -Command "-f `"$file`""
        $run.arguments = [string[]]('-f', $file)
        $run.script = $text
        $run
    } finally {
        [System.IO.File]::Delete($file)
    }
}

# The command by which portald adds or deletes an address.
function Get-AddressCommand {
    [CmdletBinding()]
    [OutputType([string])]
    param(
        [Parameter(Mandatory)] [ValidateSet('add', 'delete')] [string] $Verb,
        [Parameter(Mandatory)] [int] $Index,
        [Parameter(Mandatory)] [System.Net.IPAddress] $Of
    )
    $v6 = $Of.AddressFamily -eq [System.Net.Sockets.AddressFamily]::InterNetworkV6
    switch ("$Verb $v6") {
        'add False' {
            "interface ipv4 add address name=$Index address=$Of mask=255.255.255.255 store=active skipassource=true"
        }
        'add True' { "interface ipv6 add address interface=$Index address=$Of/128 store=active skipassource=true" }
        'delete False' { "interface ipv4 delete address name=$Index address=$Of store=active" }
        'delete True' { "interface ipv6 delete address interface=$Index address=$Of store=active" }
    }
}

# The error number of binding a socket, 0 if it works.
function Get-SocketError {
    [CmdletBinding()]
    [OutputType([int])]
    param(
        [Parameter(Mandatory)] [System.Net.IPAddress] $At,
        [Parameter(Mandatory)] [int] $Port,
        [ValidateSet('tcp', 'udp')] [string] $Protocol = 'tcp'
    )
    $type = if ($Protocol -eq 'tcp') { 'Stream' } else { 'Dgram' }
    $socket = New-Object -TypeName System.Net.Sockets.Socket -ArgumentList $At.AddressFamily, $type, $Protocol
    try {
        $socket.Bind((New-Object -TypeName System.Net.IPEndPoint -ArgumentList $At, $Port))
        0
    } catch [System.Net.Sockets.SocketException] {
        $_.Exception.GetBaseException().ErrorCode
    } finally {
        $socket.Dispose()
    }
}

# What becomes of an address after netsh has ended: its state, and whether a socket can be bound to it.
function Watch-NewAddress {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [System.Net.IPAddress] $Of)

    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $last = ''
    while ($clock.Elapsed -lt [TimeSpan]::FromSeconds(10)) {
        $found = Get-NetIPAddress -IPAddress "$Of" -PolicyStore ActiveStore -ErrorAction SilentlyContinue
        $state = if ($found) { [string]$found.AddressState } else { 'Missing' }
        $bind = Get-SocketError -At $Of -Port $capturePort
        if ("$state $bind" -ne $last) {
            $last = "$state $bind"
            [ordered]@{ milliseconds = $clock.ElapsedMilliseconds; state = $state; bindError = $bind }
        }
        if ($state -eq 'Preferred' -and $bind -eq 0) {
            return
        }
        Start-Sleep -Milliseconds 20
    }
}

# The interfaces of this host with their addresses.
function Get-HostInterface {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param()

    $all = @(Get-NetIPAddress -PolicyStore ActiveStore)
    foreach ($device in Get-NetIPInterface | Sort-Object -Property ifIndex -Unique) {
        $own = @($all | Where-Object -Property InterfaceIndex -EQ -Value $device.ifIndex | ForEach-Object -Process {
                [ordered]@{
                    address      = $_.IPAddress
                    prefixLength = [int]$_.PrefixLength
                    state        = [string]$_.AddressState
                    skipAsSource = [bool]$_.SkipAsSource
                }
            })
        [ordered]@{ name = $device.InterfaceAlias; index = [int]$device.ifIndex; addresses = $own }
    }
}

# The ranges of ports that Windows keeps: lines with two numbers, whatever the language.
function Get-ExcludedPort {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [System.Collections.IDictionary[]] $Run)

    foreach ($r in $Run | Where-Object -FilterScript { $_.arguments[3] -eq 'excludedportrange' }) {
        $text = [System.Text.Encoding]::ASCII.GetString([Convert]::FromBase64String($r.output))
        foreach ($found in [regex]::Matches($text, '(?m)^\s*(\d+)\s+(\d+)\s')) {
            [ordered]@{
                family   = $r.arguments[1]
                protocol = $r.arguments[4]
                first    = [int]$found.Groups[1].Value
                last     = [int]$found.Groups[2].Value
            }
        }
    }
}

# What netsh says of the host, without a change.
function Get-HostRun {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [int] $Index)

    foreach ($family in 'ipv4', 'ipv6') {
        Invoke-Netsh -Name 'showInterfaces' -Command "interface $family show interfaces"
        Invoke-Netsh -Name 'showInterface' -Command "interface $family show interface $Index"
        Invoke-Netsh -Name 'showAddresses' -Command "interface $family show addresses $Index"
        foreach ($protocol in 'tcp', 'udp') {
            Invoke-Netsh -Name 'showExcluded' -Command "interface $family show excludedportrange $protocol"
            Invoke-Netsh -Name 'showDynamic' -Command "interface $family show dynamicport $protocol"
        }
    }
    Invoke-Netsh -Name 'showPortproxy' -Command 'interface portproxy show all'
}

# What netsh answers to changes of one address. The caller removes what may be left.
function Get-ChangeRun {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param(
        [Parameter(Mandatory)] [int] $Index,
        [Parameter(Mandatory)] [System.Net.IPAddress] $Of
    )
    # The simulator says for both families what netsh says for IPv4.
    $v6 = $Of.AddressFamily -eq [System.Net.Sockets.AddressFamily]::InterNetworkV6
    $suffix = if ($v6) { 'IPv6' } else { '' }
    $family = if ($v6) { 'ipv6' } else { 'ipv4' }
    $add = Get-AddressCommand -Verb add -Index $Index -Of $Of
    $delete = Get-AddressCommand -Verb delete -Index $Index -Of $Of
    $elsewhere = Get-AddressCommand -Verb add -Index 2147483646 -Of $Of # no interface has this index

    Invoke-Netsh -Name "notFound$suffix" -Command $delete
    $added = Invoke-Netsh -Name "done$suffix" -Command $add
    $added.watched = @(Watch-NewAddress -Of $Of)
    $added
    Invoke-Netsh -Name 'showAddresses' -Command "interface $family show addresses $Index"
    Invoke-Netsh -Name "exists$suffix" -Command $add
    Invoke-Netsh -Name "noInterface$suffix" -Command $elsewhere
    Invoke-Netsh -Name "incorrect$suffix" -Command ($add -replace ' address=\S+', ' address=224.0.0.1')
    Invoke-Netsh -Name "missing$suffix" -Command "interface $family add address"
    Invoke-Netsh -Name "notUnderstood$suffix" -Command "$add frobnicate=1"
    Invoke-NetshScript -Line $add, $delete, $delete
    Invoke-NetshScript -Line $add, 'frobnicate', $delete
    Invoke-Netsh -Name 'scriptMissing' -Command '-f C:\frobnicate.txt'
}

# The error numbers of sockets that cannot be had.
function Get-SocketCase {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [AllowEmptyCollection()] [System.Collections.IDictionary[]] $Excluded)

    $any = [System.Net.IPAddress]::Any
    foreach ($exclusive in $false, $true) {
        $taken = New-Object -TypeName System.Net.Sockets.TcpListener -ArgumentList $any, 0
        $taken.ExclusiveAddressUse = $exclusive
        $taken.Start()
        try {
            foreach ($at in $any, [System.Net.IPAddress]::Loopback) {
                $bindError = Get-SocketError -At $at -Port $taken.LocalEndpoint.Port
                [ordered]@{ case = "$at, in use at all addresses, exclusively: $exclusive"; bindError = $bindError }
            }
        } finally {
            $taken.Stop()
        }
    }
    foreach ($protocol in 'tcp', 'udp') {
        $bindError = Get-SocketError -At '192.0.2.254' -Port $capturePort -Protocol $protocol
        [ordered]@{ case = "address of another host, $protocol"; bindError = $bindError }
    }
    foreach ($range in $Excluded | Where-Object -FilterScript { $_.family -eq 'ipv4' }) {
        $bindError = Get-SocketError -At $any -Port $range.first -Protocol $range.protocol
        [ordered]@{ case = "excluded $($range.protocol) $($range.first)"; bindError = $bindError }
    }
}

# Whether the firewall is on, and answers for ports where nobody listens.
function Get-FirewallState {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param()

    $root = 'HKLM:\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy'
    foreach ($name in 'Domain', 'Private', 'Public') {
        $profileState = Get-NetFirewallProfile -PolicyStore ActiveStore -Name $name
        $key = Join-Path -Path $root -ChildPath ($name.Replace('Private', 'Standard') + 'Profile')
        $values = Get-ItemProperty -LiteralPath $key
        [ordered]@{
            profile           = $name
            enabled           = [string]$profileState.Enabled
            inbound           = [string]$profileState.DefaultInboundAction
            stealthModeSwitch = $values.PSObject.Properties.Name -contains 'DisableStealthMode'
        }
    }
}

# What HNS has, or why it cannot be read.
function Get-HnsDocument {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param()

    $using = 'System.Collections.Generic', 'System.Text.RegularExpressions'
    Add-Type -Namespace Portald -Name Hcn -UsingNamespace $using -MemberDefinition $hcn
    foreach ($kind in 'Network', 'LoadBalancer', 'Endpoint') {
        try {
            foreach ($document in [Portald.Hcn]::$kind()) {
                [ordered]@{ kind = $kind; document = $document; error = '' }
            }
        } catch [System.Management.Automation.MethodInvocationException] {
            [ordered]@{ kind = $kind; document = ''; error = $_.Exception.GetBaseException().Message }
        }
    }
}

# Whether a TCP connection from this node is accepted: the error number, 0 if it is, -1 if nobody answers in time.
function Test-Connect {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param([Parameter(Mandatory)] [string] $To)

    $address, $port = $To -split ':(?=\d+$)'
    $at = [System.Net.IPAddress]$address.Trim('[', ']')
    $client = New-Object -TypeName System.Net.Sockets.TcpClient -ArgumentList $at.AddressFamily
    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $number = -1
    try {
        if ($client.ConnectAsync($at, [int]$port).Wait(10000)) {
            $number = 0
        }
    } catch [System.Net.Sockets.SocketException], [System.AggregateException] {
        $number = $_.Exception.GetBaseException().ErrorCode
    } finally {
        $client.Dispose()
    }
    [ordered]@{ to = $To; from = 'node'; connectError = $number; milliseconds = $clock.Elapsed.TotalMilliseconds }
}

# Whether a container reaches an address of this host, and which address it has for this host.
function Test-PodConnect {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param(
        [Parameter(Mandatory)] [string] $From,
        [Parameter(Mandatory)] [System.Net.IPAddress] $To,
        [Parameter(Mandatory)] [string] $Forwarding
    )
    $start = New-Object -TypeName System.Diagnostics.ProcessStartInfo -Property @{
        FileName        = $Crictl
        Arguments       = "exec $From curl.exe --silent --max-time 5 --output NUL http://${To}:$capturePort/"
        UseShellExecute = $false
        CreateNoWindow  = $true
    }
    $listener = New-Object -TypeName System.Net.Sockets.TcpListener -ArgumentList $To, $capturePort
    $listener.Start()
    try {
        $clock = [System.Diagnostics.Stopwatch]::StartNew()
        $accepting = $listener.AcceptTcpClientAsync()
        $process = [System.Diagnostics.Process]::Start($start)
        $client = ''
        if ($accepting.Wait(15000)) {
            $client = [string]$accepting.Result.Client.RemoteEndPoint.Address
            $accepting.Result.Dispose()
        }
        $milliseconds = $clock.Elapsed.TotalMilliseconds
        $ended = $process.WaitForExit(15000)
        [ordered]@{
            from         = $From
            to           = [string]$To
            forwarding   = $Forwarding
            client       = $client
            exitCode     = if ($ended) { $process.ExitCode } else { -1 }
            milliseconds = $milliseconds
        }
    } finally {
        $listener.Stop()
    }
}

# How long it takes to add and remove many addresses, how many there are then, and with which error calls failed last.
function Measure-Address {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param(
        [Parameter(Mandatory)] [int] $Index,
        [Parameter(Mandatory)] [int] $Number
    )
    $all = for ($i = 0; $i -lt $Number; $i++) { "198.18.$([Math]::Floor($i / 250)).$($i % 250 + 1)" }
    $all = [string[]]$all
    foreach ($way in 'call', 'netsh') {
        foreach ($verb in 'add', 'delete') {
            $failed = 0
            $clock = [System.Diagnostics.Stopwatch]::StartNew()
            if ($way -eq 'call') {
                foreach ($a in $all) {
                    $code = [Portald.Address]::Change($Index, $a, $verb -eq 'add')
                    if ($code -ne 0) {
                        $failed = $code
                    }
                }
            } else {
                for ($i = 0; $i -lt $Number; $i += 200) {
                    $some = $all[$i..[Math]::Min($i + 199, $Number - 1)]
                    $lines = $some | ForEach-Object -Process { Get-AddressCommand -Verb $verb -Index $Index -Of $_ }
                    [void](Invoke-NetshScript -Line $lines)
                }
            }
            $milliseconds = $clock.Elapsed.TotalMilliseconds
            [ordered]@{
                way          = $way
                verb         = $verb
                count        = $Number
                present      = @(Get-ManyAddress -Index $Index).Count
                lastError    = $failed
                milliseconds = $milliseconds
            }
        }
    }
}

# The addresses of the interface that are for benchmarks.
function Get-ManyAddress {
    [CmdletBinding()]
    [OutputType([Microsoft.Management.Infrastructure.CimInstance])]
    param([Parameter(Mandatory)] [int] $Index)

    Get-NetIPAddress -InterfaceIndex $Index -AddressFamily IPv4 -ErrorAction SilentlyContinue |
        Where-Object -Property IPAddress -Like -Value '198.18.*'
}

# What containers reach. The caller removes the addresses.
function Get-PodDial {
    [CmdletBinding()]
    [OutputType([System.Collections.Specialized.OrderedDictionary])]
    param(
        [Parameter(Mandatory)] [int] $Index,
        [Parameter(Mandatory)] [System.Net.IPAddress[]] $Of
    )
    $rule = New-NetFirewallRule -DisplayName 'portald capture' -Direction Inbound -Action Allow -Protocol TCP `
        -LocalPort $capturePort
    $was = (Get-NetIPInterface -InterfaceIndex $Index -AddressFamily IPv4).Forwarding
    try {
        foreach ($a in $Of) {
            [void](Invoke-Netsh -Name 'forPods' -Command (Get-AddressCommand -Verb add -Index $Index -Of $a))
            [void]@(Watch-NewAddress -Of $a)
        }
        foreach ($forwarding in 'Disabled', 'Enabled') {
            Set-NetIPInterface -InterfaceIndex $Index -AddressFamily IPv4 -Forwarding $forwarding
            foreach ($a in $Of) {
                foreach ($id in $Container) {
                    Test-PodConnect -From $id -To $a -Forwarding $forwarding
                }
            }
        }
    } finally {
        Set-NetIPInterface -InterfaceIndex $Index -AddressFamily IPv4 -Forwarding $was
        $rule | Remove-NetFirewallRule
    }
}

$device = Get-NetIPInterface -InterfaceAlias $InterfaceName -ErrorAction SilentlyContinue | Select-Object -First 1
if ($null -eq $device) {
    $names = (Get-NetIPInterface | Select-Object -ExpandProperty InterfaceAlias -Unique | Sort-Object) -join "', '"
    throw "this host has no interface '$InterfaceName'; it has '$names'"
}
$index = [int]$device.ifIndex
$addresses = [System.Net.IPAddress[]]($Address, $Address6)
$forPods = @([System.Net.IPAddress]$Address)
if ($ServiceAddress) {
    $forPods += [System.Net.IPAddress]$ServiceAddress
}
if ($Container) {
    [void](Get-Command -Name $Crictl -CommandType Application)
}
if ($Count) {
    if (Get-ManyAddress -Index $index) {
        throw "the interface '$InterfaceName' has addresses of 198.18.0.0/16 already; run this without -Count"
    }
    Add-Type -Namespace Portald -Name Address -UsingNamespace 'System.Net' -MemberDefinition $iphlpapi
}
foreach ($a in $addresses + $forPods) {
    if (Get-NetIPAddress -IPAddress "$a" -ErrorAction SilentlyContinue) {
        throw "this host has the address $a already; choose others with -Address, -Address6, -ServiceAddress"
    }
}

$version = Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
$codePages = Get-ItemProperty -LiteralPath 'HKLM:\SYSTEM\CurrentControlSet\Control\Nls\CodePage'
$identity = [System.Security.Principal.WindowsIdentity]::GetCurrent()
$principal = New-Object -TypeName System.Security.Principal.WindowsPrincipal -ArgumentList $identity
$elevated = $principal.IsInRole([System.Security.Principal.WindowsBuiltInRole]::Administrator)
$runs = @(Get-HostRun -Index $index)
$excluded = @(Get-ExcludedPort -Run $runs)
$capture = [ordered]@{
    format        = 1
    windows       = "$([Environment]::OSVersion.Version.ToString(3)).$($version.UBR)"
    product       = $version.ProductName
    culture       = (Get-UICulture).Name
    oemCodePage   = [int]$codePages.OEMCP
    elevated      = $elevated
    interfaceName = $InterfaceName
    interfaces    = @(Get-HostInterface)
    excludedPorts = $excluded
    sockets       = @(Get-SocketCase -Excluded $excluded)
    firewall      = @(Get-FirewallState)
    hns           = @(Get-HnsDocument)
    dials         = @($Dial | ForEach-Object -Process { Test-Connect -To $_ })
}

if ($PSCmdlet.ShouldProcess("interface '$InterfaceName'", "add and remove $Address and $Address6")) {
    try {
        foreach ($a in $addresses) {
            if ($elevated) {
                $runs += @(Get-ChangeRun -Index $index -Of $a)
            } else {
                $command = Get-AddressCommand -Verb add -Index $index -Of $a
                $runs += @(Invoke-Netsh -Name 'notElevated' -Command $command)
            }
        }
        if ($elevated) {
            $capture.timings = @($Count | ForEach-Object -Process { Measure-Address -Index $index -Number $_ })
        }
        if ($elevated -and $Container) {
            $capture.podDials = @(Get-PodDial -Index $index -Of $forPods)
        }
    } finally {
        if ($Count) {
            Get-ManyAddress -Index $index | Remove-NetIPAddress -Confirm:$false
        }
        foreach ($a in $addresses + $forPods) {
            [void](Invoke-Netsh -Name 'cleanup' -Command (Get-AddressCommand -Verb delete -Index $index -Of $a))
            if (Get-NetIPAddress -IPAddress "$a" -ErrorAction SilentlyContinue) {
                Write-Warning -Message "the address $a is still there; remove it: Remove-NetIPAddress -IPAddress $a"
            }
        }
    }
}

$capture.runs = $runs
$full = $PSCmdlet.GetUnresolvedProviderPathFromPSPath($Path)
$utf8 = New-Object -TypeName System.Text.UTF8Encoding -ArgumentList $false
[System.IO.File]::WriteAllText($full, (ConvertTo-Json -InputObject $capture -Depth 6), $utf8)
$full
