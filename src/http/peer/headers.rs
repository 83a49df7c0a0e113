//! The headers of calls between nodes.

/// On a forwarded request: the node that forwarded it, the number that this node gave it, the digest of the body, and
/// the proof of them and of the whole call.
pub const FORWARDED: &str = "x-tenure-forwarded";
/// On a forwarded request: the address of the original caller.
pub const FORWARDED_FOR: &str = "x-tenure-forwarded-for";
/// On a forwarded request: the name of the principal that sent it, in base64url.
pub const PRINCIPAL: &str = "x-tenure-principal";
/// On a forwarded acquire-any: the call only asks for what the home node granted to an earlier call. On a forwarded order
/// for the revocation list: the node only confirms that the list with this number of changes is in force.
pub const PART: &str = "x-tenure-part";
/// On a forwarded acquire: the call asks only for a place in the queue; the node that sent it grants the key.
pub const PLACE: &str = "x-tenure-place";
/// On a forwarded request that may wait: the milliseconds that it has already waited elsewhere.
pub const WAITED: &str = "x-tenure-waited-ms";
/// On the answer to such a request: the lease has moved to yet another home node.
pub const MOVED: &str = "x-tenure-moved";
/// On the answer to a forwarded request: the node has too much to do, and refused it before it did anything.
pub const SHED: &str = "x-tenure-shed";
/// On an answer: the call claims to be forwarded, but does not prove that a node of the same store forwarded it. Nothing
/// was done. The value is the newest version of the proof that the node knows.
pub const UNPROVEN: &str = "x-tenure-unproven";
