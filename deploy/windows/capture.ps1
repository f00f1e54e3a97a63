<#
.SYNOPSIS
Captures what netsh and the network of this Windows host say, for the tests of portald.

.DESCRIPTION
Runs netsh the way portald does, and keeps arguments, exit codes, times, and output byte by byte: of the commands that
show interfaces, addresses and excluded port ranges, and of those that add an address that is there already, delete one
that is not, name an interface that does not exist, and so on. It also measures how long a new address stays tentative,
and with which error numbers sockets are refused meanwhile, on ports in use, and in excluded ranges.

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
    [string] $Address6 = '2001:db8::77'
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$netsh = Join-Path -Path $env:SystemRoot -ChildPath 'System32\netsh.exe'
$timeout = [TimeSpan]::FromSeconds(30)
$capturePort = 39080

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

$device = Get-NetIPInterface -InterfaceAlias $InterfaceName -ErrorAction SilentlyContinue | Select-Object -First 1
if ($null -eq $device) {
    $names = (Get-NetIPInterface | Select-Object -ExpandProperty InterfaceAlias -Unique | Sort-Object) -join "', '"
    throw "this host has no interface '$InterfaceName'; it has '$names'"
}
$index = [int]$device.ifIndex
$addresses = [System.Net.IPAddress[]]($Address, $Address6)
foreach ($a in $addresses) {
    if (Get-NetIPAddress -IPAddress "$a" -ErrorAction SilentlyContinue) {
        throw "this host has the address $a already; choose others with -Address and -Address6"
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
    } finally {
        foreach ($a in $addresses) {
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
