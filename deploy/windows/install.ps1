<#
.SYNOPSIS
Installs portald as a service of this Windows node, or updates it.

.DESCRIPTION
Checks the node first, and changes nothing if something is missing: the rights of an administrator, Windows Server 2019
or later, the network interface, the hash of the program, and that no kube-proxy runs here. Then it copies the program
to C:\Program Files\portald and the configuration to C:\ProgramData\portald, and installs and starts the service.
portald checks the configuration before that.

It may be run again at any time: what is as it should be stays untouched. A new program stops the service while it is
copied; a new configuration is followed by the running service.

On a node of kubeadm the DaemonSet of this folder needs no login on the node; docs/windows.md compares the two.

.PARAMETER Program
The portald.exe to install.

.PARAMETER Sha256
The SHA-256 hash that this file must have, as whoever built it says.

.PARAMETER Config
The configuration. It becomes config.yaml in C:\ProgramData\portald, and names the kubeconfig there:
clientConnection.kubeconfig.

.PARAMETER Kubeconfig
The address and the credentials of the API server. The file becomes kubeconfig in C:\ProgramData\portald, which only
LocalSystem and administrators may read.

.PARAMETER InterfaceName
The interface that gets the addresses of Services. It goes before interfaceName of the configuration.

.PARAMETER Firewall
Adds the rule of the firewall that lets clients reach the program.

.EXAMPLE
$node = @{ Program = 'portald.exe'; Sha256 = $hash; Config = 'config.yaml'; Kubeconfig = 'kubeconfig' }
.\install.ps1 @node -InterfaceName 'vEthernet (portald)' -Firewall

Installs and starts the service. With -WhatIf it checks the node, and prints what it would do.
#>
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)]
    [ValidateScript({ Test-Path -LiteralPath $_ -PathType Leaf })]
    [string] $Program,

    [Parameter(Mandatory)]
    [ValidatePattern('^[0-9A-Fa-f]{64}$')]
    [string] $Sha256,

    [Parameter(Mandatory)]
    [ValidateScript({ Test-Path -LiteralPath $_ -PathType Leaf })]
    [string] $Config,

    [Parameter(Mandatory)]
    [ValidateScript({ Test-Path -LiteralPath $_ -PathType Leaf })]
    [string] $Kubeconfig,

    [Parameter(Mandatory)]
    [ValidateNotNullOrEmpty()]
    [string] $InterfaceName,

    [switch] $Firewall
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

function Assert-Administrator {
    [CmdletBinding()]
    param()

    $identity = [System.Security.Principal.WindowsIdentity]::GetCurrent()
    $principal = New-Object -TypeName System.Security.Principal.WindowsPrincipal -ArgumentList $identity
    if (-not $principal.IsInRole([System.Security.Principal.WindowsBuiltInRole]::Administrator)) {
        throw 'only an administrator may install a service: run this in an elevated PowerShell'
    }
}

# Server 2019 is the first Windows whose nodes Kubernetes supports.
function Assert-WindowsVersion {
    [CmdletBinding()]
    param()

    $version = [Environment]::OSVersion.Version
    if (-not [Environment]::Is64BitOperatingSystem -or $version.Build -lt 17763) {
        throw "this is Windows $version; portald needs Windows Server 2019 (10.0.17763) or later, 64 bits"
    }
}

function Assert-Interface {
    [CmdletBinding()]
    param([Parameter(Mandatory)] [string] $Name)

    if (-not (Get-NetIPInterface -InterfaceAlias $Name -ErrorAction SilentlyContinue)) {
        $names = (Get-NetIPInterface | Select-Object -ExpandProperty InterfaceAlias -Unique | Sort-Object) -join "', '"
        throw "-InterfaceName: this node has no interface '$Name'; it has '$names'"
    }
}

function Assert-Hash {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory)] [string] $Path,
        [Parameter(Mandatory)] [string] $Expected
    )
    $hash = (Get-FileHash -LiteralPath $Path -Algorithm SHA256).Hash
    if ($hash -ne $Expected) {
        throw "-Program: $Path has the SHA-256 hash $hash, want $Expected"
    }
}

# Two service proxies must not serve the same Services. What kube-proxy wrote into HNS stays there when it ends.
function Assert-NoKubeProxy {
    [CmdletBinding()]
    param()

    $service = Get-Service -Name 'kube-proxy' -ErrorAction SilentlyContinue
    if ($service -and $service.Status -ne 'Stopped') {
        throw 'kube-proxy runs: Stop-Service -Name kube-proxy; Set-Service -Name kube-proxy -StartupType Disabled'
    }
    if (Get-Process -Name 'kube-proxy' -ErrorAction SilentlyContinue) {
        throw 'kube-proxy runs, and not as the service kube-proxy: end it first, perhaps its DaemonSet'
    }
    if (-not (Get-Command -Name 'Get-HnsPolicyList' -ErrorAction SilentlyContinue)) {
        return
    }
    $left = @(Get-HnsPolicyList).Count
    if ($left -gt 0) {
        Write-Warning -Message "HNS has $left policy lists. Those of a kube-proxy that ran here go before portald."
        Write-Warning -Message 'To remove all of them: Get-HnsPolicyList | Remove-HnsPolicyList'
    }
}

# Everybody may make folders and files in C:\ProgramData, and whoever makes one can change it later.
function Assert-OwnedByAdministrator {
    [CmdletBinding()]
    param([Parameter(Mandatory)] [string] $Path)

    $sids = 'S-1-5-18', 'S-1-5-32-544', [System.Security.Principal.WindowsIdentity]::GetCurrent().User.Value
    $items = @(Get-Item -LiteralPath $Path -Force) + @(Get-ChildItem -LiteralPath $Path -Force -Recurse)
    foreach ($item in $items) {
        $owner = (Get-Acl -LiteralPath $item.FullName).GetOwner([System.Security.Principal.SecurityIdentifier]).Value
        $link = ($item.Attributes -band [System.IO.FileAttributes]::ReparsePoint) -ne 0
        if ($link -or $sids -notcontains $owner) {
            throw "$($item.FullName) is a link, or belongs to $owner, who is no administrator: remove it"
        }
    }
}

# A folder that only LocalSystem and administrators may use.
function Initialize-PrivateFolder {
    [CmdletBinding(SupportsShouldProcess)]
    param([Parameter(Mandatory)] [string] $Path)

    if (Test-Path -LiteralPath $Path) {
        Assert-OwnedByAdministrator -Path $Path
    }
    if ($PSCmdlet.ShouldProcess($Path, 'leave it to LocalSystem and administrators')) {
        [void](New-Item -Path $Path -ItemType Directory -Force)
        $acl = New-Object -TypeName System.Security.AccessControl.DirectorySecurity
        $acl.SetSecurityDescriptorSddlForm('O:BAD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)')
        Set-Acl -LiteralPath $Path -AclObject $acl
    }
}

function Test-SameFile {
    [CmdletBinding()]
    [OutputType([bool])]
    param(
        [Parameter(Mandatory)] [string] $Path,
        [Parameter(Mandatory)] [string] $Other
    )
    if (-not (Test-Path -LiteralPath $Other)) {
        return $false
    }
    (Get-FileHash -LiteralPath $Path).Hash -eq (Get-FileHash -LiteralPath $Other).Hash
}

function Invoke-Portald {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory)] [string] $Path,
        [Parameter(Mandatory)] [string[]] $Argument
    )
    & $Path $Argument
    if ($LASTEXITCODE -ne 0) {
        throw "portald $($Argument -join ' ') ended with exit code $LASTEXITCODE"
    }
}

Assert-Administrator
Assert-WindowsVersion
Assert-Interface -Name $InterfaceName
Assert-Hash -Path $Program -Expected $Sha256
Assert-NoKubeProxy

$data = Join-Path -Path $env:ProgramData -ChildPath 'portald'
$programs = Join-Path -Path $env:ProgramFiles -ChildPath 'portald'
$portald = Join-Path -Path $programs -ChildPath 'portald.exe'
$configFile = Join-Path -Path $data -ChildPath 'config.yaml'

Initialize-PrivateFolder -Path $data
foreach ($pair in @($Config, $configFile), @($Kubeconfig, (Join-Path -Path $data -ChildPath 'kubeconfig'))) {
    if (-not (Test-SameFile -Path $pair[0] -Other $pair[1])) {
        Copy-Item -LiteralPath $pair[0] -Destination $pair[1] -Force
    }
}

if (-not (Test-SameFile -Path $Program -Other $portald)) {
    if ((Get-Service -Name 'portald' -ErrorAction SilentlyContinue) -and $PSCmdlet.ShouldProcess('portald', 'stop')) {
        Invoke-Portald -Path $portald -Argument 'service', 'stop'
    }
    [void](New-Item -Path $programs -ItemType Directory -Force)
    Copy-Item -LiteralPath $Program -Destination $portald -Force
}

if ($PSCmdlet.ShouldProcess('portald', 'install the service, start it')) {
    $install = @('service', 'install')
    if ($Firewall) {
        $install += '--firewall'
    }
    $install += '--', '--config', $configFile, '--interface-name', $InterfaceName
    Invoke-Portald -Path $portald -Argument $install
    Invoke-Portald -Path $portald -Argument 'service', 'start'
    Invoke-Portald -Path $portald -Argument 'service', 'status'
}
