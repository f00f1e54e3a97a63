package netshtest

import (
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// Said names what netsh says at the end of a command that shows nothing.
type Said string

// Messages of netsh. Done is an empty line.
const (
	Done          Said = "done"
	Exists        Said = "exists"
	NotFound      Said = "notFound"
	NoInterface   Said = "noInterface"
	Incorrect     Said = "incorrect" // an address that no host can have
	NotElevated   Said = "notElevated"
	Missing       Said = "missing" // a parameter
	NotUnderstood Said = "notUnderstood"
)

// Everything returns all that netsh says.
func Everything() []Said {
	return []Said{Done, Exists, NotFound, NoInterface, Incorrect, NotElevated, Missing, NotUnderstood}
}

// Language is the host's language, with the code page of its console.
type Language int

// The languages.
const (
	English Language = iota // code page 437
	German                  // 850
	Chinese                 // 936
)

// Languages returns all of them.
func Languages() []Language { return []Language{English, German, Chinese} }

// texts are the translated parts of netsh's output.
type texts struct {
	codePage encoding.Encoding
	said     map[Said]string

	configuration, dhcp, yes, no, address, subnet, metric string // of show addresses
	interfaces, connected                                 string // of show interfaces
	excluded                                              string // of show excludedportrange
}

func (l Language) texts() texts { return [...]texts{english(), german(), chinese()}[l] }

// encode is a text in the code page of the console.
func (l Language) encode(text string) []byte {
	out, err := encoding.ReplaceUnsupported(l.texts().codePage.NewEncoder()).Bytes([]byte(text))
	if err != nil {
		return []byte(text)
	}
	return out
}

func english() texts {
	return texts{
		codePage: charmap.CodePage437,
		said: map[Said]string{
			Exists:        "The object already exists.\r\n",
			NotFound:      "Element not found.\r\n",
			NoInterface:   "The filename, directory name, or volume label syntax is incorrect.\r\n",
			Incorrect:     "The parameter is incorrect.\r\n",
			NotElevated:   "The requested operation requires elevation (Run as administrator).\r\n",
			Missing:       "One or more essential parameters were not entered.\r\n",
			NotUnderstood: "The syntax supplied for this command is not valid. Check help for the correct syntax.\r\n",
		},
		configuration: `Configuration for interface "%s"`, dhcp: "DHCP enabled:", yes: "Yes", no: "No",
		address: "IP Address:", subnet: "Subnet Prefix:                        %s (mask %s)", metric: "InterfaceMetric:",
		interfaces: "Idx     Met         MTU          State                Name", connected: "connected",
		excluded: "Protocol %s Port Exclusion Ranges\r\n\r\nStart Port    End Port      \r\n",
	}
}

func german() texts {
	return texts{
		codePage: charmap.CodePage850,
		said: map[Said]string{
			Exists:        "Das Objekt ist bereits vorhanden.\r\n",
			NotFound:      "Element nicht gefunden.\r\n",
			NoInterface:   "Die Syntax für den Dateinamen, Verzeichnisnamen oder die Datenträgerbezeichnung ist falsch.\r\n",
			Incorrect:     "Falscher Parameter.\r\n",
			NotElevated:   "Der angeforderte Vorgang erfordert erhöhte Rechte (Als Administrator ausführen).\r\n",
			Missing:       "Mindestens ein erforderlicher Parameter wurde nicht eingegeben.\r\n",
			NotUnderstood: "Die angegebene Syntax ist für diesen Befehl nicht gültig.\r\n",
		},
		configuration: `Konfiguration der Schnittstelle "%s"`, dhcp: "DHCP aktiviert:", yes: "Ja", no: "Nein",
		address: "IP-Adresse:", subnet: "Subnetzpräfix:                        %s (Maske %s)",
		metric:     "Schnittstellenmetrik:",
		interfaces: "Idx     Met         MTU          State                Name", connected: "connected",
		excluded: "Protokoll %s Portausschlussbereiche\r\n\r\nStartport     Endport       \r\n",
	}
}

func chinese() texts {
	return texts{
		codePage: simplifiedchinese.GBK,
		said: map[Said]string{
			Exists:        "对象已存在。\r\n",
			NotFound:      "找不到元素。\r\n",
			NoInterface:   "文件名、目录名或卷标语法不正确。\r\n",
			Incorrect:     "参数错误。\r\n",
			NotElevated:   "请求的操作需要提升(作为管理员运行)。\r\n",
			Missing:       "没有输入一个或多个必要的参数。\r\n",
			NotUnderstood: "提供给此命令的语法无效。请查看帮助以获取正确的语法信息。\r\n",
		},
		configuration: `接口 "%s" 的配置`, dhcp: "DHCP 已启用:", yes: "是", no: "否",
		address: "IP 地址:", subnet: "子网前缀:                             %s (掩码 %s)", metric: "InterfaceMetric:",
		interfaces: "Idx     Met         MTU          状态                名称", connected: "connected",
		excluded: "协议 %s 端口排除范围\r\n\r\n开始端口    结束端口      \r\n",
	}
}
