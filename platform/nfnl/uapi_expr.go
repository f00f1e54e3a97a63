package nfnl

// Attributes of every expression, and registers: verdicts have one, data 16 of four bytes or four of sixteen, which are
// the same memory.
const (
	NFTA_EXPR_NAME = 1
	NFTA_EXPR_DATA = 2

	NFT_REG_VERDICT = 0
	NFT_REG_1       = 1
	NFT_REG_2       = 2
	NFT_REG32_00    = 8
)

// Expressions that load a register from the packet or from the kernel's metadata of it.
const (
	NFTA_PAYLOAD_DREG            = 1
	NFTA_PAYLOAD_BASE            = 2
	NFTA_PAYLOAD_OFFSET          = 3
	NFTA_PAYLOAD_LEN             = 4
	NFT_PAYLOAD_NETWORK_HEADER   = 1
	NFT_PAYLOAD_TRANSPORT_HEADER = 2

	NFTA_META_DREG   = 1
	NFTA_META_KEY    = 2
	NFTA_META_SREG   = 3
	NFT_META_MARK    = 3
	NFT_META_IIFNAME = 6
	NFT_META_L4PROTO = 16

	NFTA_CT_DREG  = 1
	NFTA_CT_KEY   = 2
	NFT_CT_STATE  = 0
	NFT_CT_STATUS = 2

	NFTA_FIB_DREG           = 1
	NFTA_FIB_RESULT         = 2
	NFTA_FIB_FLAGS          = 3
	NFTA_FIB_F_SADDR        = 1
	NFTA_FIB_F_DADDR        = 2
	NFT_FIB_RESULT_ADDRTYPE = 3

	NFTA_SOCKET_KEY        = 1
	NFTA_SOCKET_DREG       = 2
	NFTA_SOCKET_LEVEL      = 3
	NFT_SOCKET_TRANSPARENT = 0
	NFT_SOCKET_WILDCARD    = 2

	NFTA_NG_DREG       = 1
	NFTA_NG_MODULUS    = 2
	NFTA_NG_TYPE       = 3
	NFTA_NG_OFFSET     = 4
	NFT_NG_INCREMENTAL = 0
	NFT_NG_RANDOM      = 1

	NFTA_HASH_SREG    = 1
	NFTA_HASH_DREG    = 2
	NFTA_HASH_LEN     = 3
	NFTA_HASH_MODULUS = 4
	NFTA_HASH_SEED    = 5
)

// Expressions that compute with registers.
const (
	NFTA_IMMEDIATE_DREG = 1
	NFTA_IMMEDIATE_DATA = 2

	NFTA_BITWISE_SREG = 1
	NFTA_BITWISE_DREG = 2
	NFTA_BITWISE_LEN  = 3
	NFTA_BITWISE_MASK = 4
	NFTA_BITWISE_XOR  = 5

	NFTA_CMP_SREG = 1
	NFTA_CMP_OP   = 2
	NFTA_CMP_DATA = 3
	NFT_CMP_EQ    = 0
	NFT_CMP_NEQ   = 1
	NFT_CMP_LTE   = 3
	NFT_CMP_GTE   = 5

	NFTA_LOOKUP_SET    = 1
	NFTA_LOOKUP_SREG   = 2
	NFTA_LOOKUP_DREG   = 3
	NFTA_LOOKUP_SET_ID = 4
	NFTA_LOOKUP_FLAGS  = 5
	NFT_LOOKUP_F_INV   = 1

	NFTA_DYNSET_SET_NAME = 1
	NFTA_DYNSET_SET_ID   = 2
	NFTA_DYNSET_OP       = 3
	NFTA_DYNSET_SREG_KEY = 4
	NFTA_DYNSET_TIMEOUT  = 6
	NFTA_DYNSET_FLAGS    = 9
	NFT_DYNSET_OP_UPDATE = 1
)

// Expressions that act on the packet or its flow.
const (
	NFTA_NAT_TYPE                   = 1
	NFTA_NAT_FAMILY                 = 2
	NFTA_NAT_REG_ADDR_MIN           = 3
	NFTA_NAT_REG_PROTO_MIN          = 5
	NFTA_NAT_FLAGS                  = 7
	NFT_NAT_DNAT                    = 1
	NF_NAT_RANGE_PROTO_SPECIFIED    = 1 << 1
	NF_NAT_RANGE_PROTO_RANDOM_FULLY = 1 << 4

	NFTA_REDIR_REG_PROTO_MIN = 1
	NFTA_REDIR_FLAGS         = 3
	NFTA_MASQ_FLAGS          = 1

	NFTA_REJECT_TYPE        = 1
	NFTA_REJECT_ICMP_CODE   = 2
	NFT_REJECT_ICMP_UNREACH = 0
	NFT_REJECT_TCP_RST      = 1
)

// Values of other headers that expressions give or take: conntrack's state and status, routing's types of addresses.
const (
	NF_CT_STATE_BIT_NEW = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW)
	IPS_CONFIRMED       = 1 << 3
	IPS_DST_NAT         = 1 << 5
	RTN_LOCAL           = 2
)
