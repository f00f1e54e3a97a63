// Reads PowerShell scripts by tree-sitter's grammar, and holds them to rules of PSScriptAnalyzer that a syntax tree can
// tell. It stands in for PowerShell's own parser and analyzer on systems that have none.
//   node lint.mjs MODULES SCRIPT…      MODULES has node_modules with web-tree-sitter and tree-sitter-powershell
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// The verbs that Get-Verb lists for what such scripts do.
const verbs = new Set(`Add Clear Close Copy Enter Exit Find Format Get Hide Join Lock Move New Open Optimize Pop Push Redo
  Remove Rename Reset Resize Search Select Set Show Skip Split Step Switch Undo Unlock Watch Backup Checkpoint Compare
  Compress Convert ConvertFrom ConvertTo Dismount Edit Expand Export Group Import Initialize Limit Merge Mount Out Publish
  Restore Save Sync Unpublish Update Debug Measure Ping Repair Resolve Test Trace Approve Assert Build Complete Confirm
  Deny Deploy Disable Enable Install Invoke Register Request Restart Resume Start Stop Submit Suspend Uninstall Unregister
  Wait Connect Disconnect Read Receive Send Write Block Grant Protect Revoke Unblock Unprotect Use`.split(/\s+/));
// Verbs of Core cmdlets that functions may not have.
const builtIn = new Set(['ForEach-Object', 'Where-Object', 'Sort-Object']);
const refused = new Set(['Write-Host', 'Invoke-Expression', 'Get-WmiObject', 'Invoke-WmiMethod']);
const changes = new Set(['New', 'Set', 'Remove', 'Start', 'Stop', 'Restart', 'Reset', 'Update']);
// Parameters of these may go without a name.
const plain = new Set(['Set-StrictMode']);

const [modules, ...scripts] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const { Parser, Language } = await import(pathToFileURL(require.resolve('web-tree-sitter')));
await Parser.init();
const parser = new Parser();
parser.setLanguage(await Language.load(`${modules}/node_modules/tree-sitter-powershell/tree-sitter-powershell.wasm`));

let complaints = 0;
for (const path of scripts) {
  const text = readFileSync(path, 'utf8');
  const root = parser.parse(text).rootNode;
  const complain = (line, what) => {
    complaints++;
    console.log(`${path}:${line}: ${what}`);
  };
  const at = (node, what) => complain(node.startPosition.row + 1, what);
  lines(text, complain);
  syntax(root, at);
  help(text, root, complain);
  settings(text, complain);
  functions(root, at);
  commands(root, at);
  expressions(root, at);
}
process.exit(complaints ? 1 : 0);

function lines(text, complain) {
  text.split('\n').forEach((line, i) => {
    if (/[^\x20-\x7e\t]/.test(line)) complain(i + 1, 'only ASCII is read alike by every PowerShell; and lines end with LF');
    if (/\s$/.test(line)) complain(i + 1, 'white space at the end');
    if (line.length > 120) complain(i + 1, `${line.length} characters, want 120 at most`);
  });
  if (!text.endsWith('\n')) complain(text.split('\n').length, 'the last line has no end');
}

function syntax(node, at) {
  if (node.isError) at(node, `syntax error near ${JSON.stringify(node.text.slice(0, 60))}`);
  if (node.isMissing) at(node, `syntax error: ${node.type} is missing`);
  for (const child of node.children) if (child.hasError || child.isMissing) syntax(child, at);
}

// help wants the comment of the script to describe it and each of its parameters.
function help(text, root, complain) {
  const comment = /^<#\n([\s\S]*?)\n#>\n\[CmdletBinding/.exec(text)?.[1] ?? '';
  for (const section of ['SYNOPSIS', 'DESCRIPTION', 'EXAMPLE']) {
    if (!comment.includes(`.${section}\n`)) complain(1, `comment-based help has no .${section}`);
  }
  const block = root.children.find((n) => n.type === 'param_block');
  for (const name of block ? parameters(block) : []) {
    if (!comment.includes(`.PARAMETER ${name}\n`)) complain(1, `comment-based help has no .PARAMETER ${name}`);
  }
  for (const [, name] of comment.matchAll(/^\.PARAMETER (\w+)$/gm)) {
    if (!block || !parameters(block).includes(name)) complain(1, `comment-based help has .PARAMETER ${name}, which is none`);
  }
}

function settings(text, complain) {
  for (const line of ['Set-StrictMode -Version Latest', "$ErrorActionPreference = 'Stop'"]) {
    if (!text.includes(`\n${line}\n`)) complain(1, `want a line: ${line}`);
  }
  if (/\[CmdletBinding\([^)]*SupportsShouldProcess[^)]*\)\]/.test(text) !== /\$PSCmdlet\.ShouldProcess\(/.test(text)) {
    complain(1, 'SupportsShouldProcess and $PSCmdlet.ShouldProcess() belong together');
  }
}

function functions(root, at) {
  for (const fn of root.descendantsOfType('function_statement')) {
    const name = fn.children.find((n) => n.type === 'function_name').text;
    const [verb, noun, more] = name.split('-');
    if (!verbs.has(verb) || !noun || more) at(fn, `${name}: want an approved verb and a noun`);
    if (/[^s]s$/.test(noun ?? '')) at(fn, `${name}: want a singular noun`);
    const block = fn.descendantsOfType('param_block')[0];
    if (!block || !/\[CmdletBinding\(/.test(block.text)) at(fn, `${name}: want [CmdletBinding()] and param()`);
    if (changes.has(verb) && !/SupportsShouldProcess/.test(block?.text ?? '')) {
      at(fn, `${name}: changes something, so it wants SupportsShouldProcess`);
    }
  }
  for (const block of root.descendantsOfType('param_block')) {
    const scope = block.parent.text.slice(block.endIndex - block.parent.startIndex);
    for (const name of parameters(block)) {
      if (!new RegExp(`[$@]${name}\\b`, 'i').test(scope)) at(block, `parameter ${name} is not used`);
    }
  }
}

function parameters(block) {
  return block.descendantsOfType('script_parameter').map((p) =>
    p.children.find((n) => n.type === 'variable').text.slice(1));
}

function commands(root, at) {
  const own = new Set(root.descendantsOfType('function_name').map((n) => n.text));
  for (const command of root.descendantsOfType('command')) {
    const name = command.childForFieldName('command_name');
    if (!name || name.type !== 'command_name') continue; // & and the path of a program
    const verb = name.text.split('-')[0];
    if (!own.has(name.text) && !builtIn.has(name.text) && !(verbs.has(verb) && /^\w+-\w+$/.test(name.text))) {
      at(name, `${name.text}: want the full name of a cmdlet, with an approved verb`);
    }
    if (refused.has(name.text)) at(name, `${name.text} is refused`);
    positional(command, name.text, at);
  }
}

// positional complains of arguments without the name of their parameter.
function positional(command, name, at) {
  const elements = command.childForFieldName('command_elements')?.namedChildren ?? [];
  const arguments_ = elements.filter((n) => n.type !== 'command_argument_sep' && n.type !== 'redirection');
  arguments_.forEach((n, i) => {
    const before = arguments_[i - 1]?.type;
    if (n.type !== 'command_parameter' && before !== 'command_parameter' && !plain.has(name)) {
      at(n, `${name}: ${n.text.slice(0, 40)} has no parameter's name`);
    }
  });
}

function expressions(root, at) {
  for (const c of root.descendantsOfType('comparison_expression')) {
    if (/-(eq|ne)\s+\$null$/i.test(c.text)) at(c, '$null belongs on the left side of a comparison');
  }
  for (const c of root.descendantsOfType('catch_clause')) {
    if (/\{\s*\}$/.test(c.text)) at(c, 'an empty catch hides errors');
  }
}
