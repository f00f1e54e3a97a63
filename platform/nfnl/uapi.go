package nfnl

// Numbers of Linux's include/uapi/linux/netfilter/nf_tables.h, under its names. They are here because
// golang.org/x/sys/unix has them on Linux alone; a test compares them with it.

// Types of messages.
const (
	NFT_MSG_NEWTABLE   = 0
	NFT_MSG_GETTABLE   = 1
	NFT_MSG_DELTABLE   = 2
	NFT_MSG_NEWCHAIN   = 3
	NFT_MSG_GETCHAIN   = 4
	NFT_MSG_DELCHAIN   = 5
	NFT_MSG_NEWRULE    = 6
	NFT_MSG_GETRULE    = 7
	NFT_MSG_DELRULE    = 8
	NFT_MSG_NEWSET     = 9
	NFT_MSG_GETSET     = 10
	NFT_MSG_DELSET     = 11
	NFT_MSG_NEWSETELEM = 12
	NFT_MSG_GETSETELEM = 13
	NFT_MSG_DELSETELEM = 14
	NFT_MSG_NEWGEN     = 15
	NFT_MSG_GETGEN     = 16
)

// Attributes of tables, chains, hooks and rules.
const (
	NFTA_LIST_ELEM     = 1
	NFTA_GEN_ID        = 1
	NFTA_GEN_PROC_PID  = 2
	NFTA_GEN_PROC_NAME = 3

	NFTA_TABLE_NAME  = 1
	NFTA_TABLE_FLAGS = 2

	NFTA_CHAIN_TABLE  = 1
	NFTA_CHAIN_NAME   = 3
	NFTA_CHAIN_HOOK   = 4
	NFTA_CHAIN_POLICY = 5
	NFTA_CHAIN_USE    = 6
	NFTA_CHAIN_TYPE   = 7

	NFTA_HOOK_HOOKNUM  = 1
	NFTA_HOOK_PRIORITY = 2

	NFTA_RULE_TABLE       = 1
	NFTA_RULE_CHAIN       = 2
	NFTA_RULE_HANDLE      = 3
	NFTA_RULE_EXPRESSIONS = 4
	NFTA_RULE_USERDATA    = 7
)

// Hooks, and families of tables.
const (
	NF_INET_PRE_ROUTING  = 0
	NF_INET_LOCAL_IN     = 1
	NF_INET_FORWARD      = 2
	NF_INET_LOCAL_OUT    = 3
	NF_INET_POST_ROUTING = 4

	NFPROTO_IPV4 = 2
	NFPROTO_IPV6 = 10
)

// Attributes and flags of sets and of their elements.
const (
	NFTA_SET_TABLE     = 1
	NFTA_SET_NAME      = 2
	NFTA_SET_FLAGS     = 3
	NFTA_SET_KEY_TYPE  = 4
	NFTA_SET_KEY_LEN   = 5
	NFTA_SET_DATA_TYPE = 6
	NFTA_SET_DATA_LEN  = 7
	NFTA_SET_DESC      = 9
	NFTA_SET_ID        = 10
	NFTA_SET_USERDATA  = 13
	NFTA_SET_EXPR      = 17
	NFTA_SET_COUNT     = 20 // Linux 6.16 and later

	NFTA_SET_DESC_SIZE = 1

	NFT_SET_ANONYMOUS = 1 << 0
	NFT_SET_CONSTANT  = 1 << 1
	NFT_SET_INTERVAL  = 1 << 2
	NFT_SET_MAP       = 1 << 3
	NFT_SET_TIMEOUT   = 1 << 4
	NFT_SET_EVAL      = 1 << 5

	NFTA_SET_ELEM_LIST_TABLE    = 1
	NFTA_SET_ELEM_LIST_SET      = 2
	NFTA_SET_ELEM_LIST_ELEMENTS = 3
	NFTA_SET_ELEM_LIST_SET_ID   = 4

	NFTA_SET_ELEM_KEY      = 1
	NFTA_SET_ELEM_DATA     = 2
	NFTA_SET_ELEM_FLAGS    = 3
	NFTA_SET_ELEM_USERDATA = 6
	NFTA_SET_ELEM_EXPR     = 7

	NFTA_COUNTER_PACKETS = 2

	NFT_SET_ELEM_INTERVAL_END = 1

	NFTA_DATA_VALUE   = 1
	NFTA_DATA_VERDICT = 2
	NFT_DATA_VERDICT  = 0xffffff00
)

// Verdicts and their attributes.
const (
	NFTA_VERDICT_CODE  = 1
	NFTA_VERDICT_CHAIN = 2

	NF_DROP    = 0
	NF_ACCEPT  = 1
	NFT_JUMP   = -3
	NFT_GOTO   = -4
	NFT_RETURN = -5
)
