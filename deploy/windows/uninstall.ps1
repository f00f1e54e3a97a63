<#
.SYNOPSIS
Removes portald from this Windows node.

.DESCRIPTION
Stops the service, which gives open connections drainTimeout to end and removes the addresses that portald added;
removes what a killed run left of them; and removes the service, its source of the event log, its rule of the firewall,
and the program. It may be run again.

No Service of the cluster works on this node afterwards until another service proxy runs.

.PARAMETER RemoveData
Removes the configuration, the credentials and the logs as well: C:\ProgramData\portald.

.EXAMPLE
.\uninstall.ps1

Asks, and removes portald. -Confirm:$false does not ask; -WhatIf prints what would be done.
#>
[CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
param([switch] $RemoveData)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

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

$identity = [System.Security.Principal.WindowsIdentity]::GetCurrent()
$principal = New-Object -TypeName System.Security.Principal.WindowsPrincipal -ArgumentList $identity
if (-not $principal.IsInRole([System.Security.Principal.WindowsBuiltInRole]::Administrator)) {
    throw 'only an administrator may remove a service: run this in an elevated PowerShell'
}

$data = Join-Path -Path $env:ProgramData -ChildPath 'portald'
$programs = Join-Path -Path $env:ProgramFiles -ChildPath 'portald'
$portald = Join-Path -Path $programs -ChildPath 'portald.exe'
$configFile = Join-Path -Path $data -ChildPath 'config.yaml'

if (-not $PSCmdlet.ShouldProcess("node $env:COMPUTERNAME", 'stop serving Services, remove portald')) {
    return
}
if (Test-Path -LiteralPath $portald) {
    Invoke-Portald -Path $portald -Argument 'service', 'uninstall'
    $cleanup = @('cleanup')
    if (Test-Path -LiteralPath $configFile) {
        $cleanup += '--config', $configFile
    }
    Invoke-Portald -Path $portald -Argument $cleanup
    Remove-Item -LiteralPath $programs -Recurse -Force -Confirm:$false
}
if ($RemoveData -and (Test-Path -LiteralPath $data)) {
    Remove-Item -LiteralPath $data -Recurse -Force -Confirm:$false
}
