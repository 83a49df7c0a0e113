//! The kinds of problem documents (RFC 9457), each with its code, HTTP status, title, and whether the same request may
//! succeed later.

/// Declares [`Code`] from its table: a row for each code.
macro_rules! table {
    ($($name:ident $code:literal $status:literal $title:literal $retry:ident,)*) => {
        /// The name of a kind of problem, for programs. Codes are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $title] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$name => Row {
                        code: $code,
                        status: $status,
                        title: $title,
                        retryable: $retry,
                    },)*
                }
            }
        }
    };
}

struct Row {
    code: &'static str,
    status: u16,
    title: &'static str,
    retryable: bool,
}

/// The same request may succeed later.
const RETRY: bool = true;
/// Repeating the same request does not help.
const FINAL: bool = false;

table! {
    MalformedRequest "malformed-request" 400 "The request cannot be read" FINAL,
    InvalidField "invalid-field" 400 "A field is not valid" FINAL,
    ForgedHeader "forged-header" 400 "A reserved header is not authentic" FINAL,
    Unauthenticated "unauthenticated" 401 "The caller is unknown" FINAL,
    Forbidden "forbidden" 403 "The caller may not do this" FINAL,
    ForeignOrigin "foreign-origin" 403 "The page is from another origin" FINAL,
    NoSuchPath "no-such-path" 404 "No such path" FINAL,
    UnknownKey "unknown-key" 404 "The key is unknown" FINAL,
    UnknownSession "unknown-session" 404 "There is no such session" FINAL,
    UnknownPool "unknown-pool" 404 "The pool is unknown" FINAL,
    MethodNotAllowed "method-not-allowed" 405 "The path does not accept this method" FINAL,
    RequestTimeout "request-timeout" 408 "The body did not arrive in time" RETRY,
    Held "held" 409 "The lease is held" RETRY,
    HeldByYou "held-by-you" 409 "You already hold the lease" FINAL,
    NoneAvailable "none-available" 409 "None of the keys is available" RETRY,
    RequestInFlight "request-in-flight" 409 "The request is in progress" RETRY,
    RequestIdSpent "request-id-spent" 409 "The grant for this request_id is over" FINAL,
    LeaseLost "lease-lost" 409 "You no longer hold the lease" FINAL,
    KeptBySession "kept-by-session" 409 "A session keeps the lease" FINAL,
    SessionLost "session-lost" 409 "The session is over" FINAL,
    NotHolder "not-holder" 409 "Another owner holds the lease" FINAL,
    NotHeld "not-held" 409 "The lease is not held" FINAL,
    NotFencing "not-fencing" 409 "No fence is pending" FINAL,
    Pinned "pinned" 409 "The lease is pinned" FINAL,
    NoAccessFile "no-access-file" 409 "The node has no access file" FINAL,
    LocksOut "locks-out" 409 "No administrator would be left" FINAL,
    OtherVersion "other-version" 409 "A node runs another version" RETRY,
    BodyTooLarge "body-too-large" 413 "The body is too large" FINAL,
    NotJson "not-json" 415 "The body is not declared as JSON" FINAL,
    UnknownHost "unknown-host" 421 "The host is unknown" FINAL,
    UpgradeRequired "upgrade-required" 426 "The path speaks WebSocket" FINAL,
    RequestIdReused "request-id-reused" 422 "The request_id was used for another request" FINAL,
    Cooling "cooling" 423 "The lock-delay or the minimum hold is not over" RETRY,
    Fencing "fencing" 423 "The last owner is being fenced" RETRY,
    Busy "busy" 429 "The key is busy" RETRY,
    RateLimited "rate-limited" 429 "There are too many calls" RETRY,
    LimitReached "limit-reached" 429 "The principal uses all that it may" RETRY,
    TooManySubscribers "too-many-subscribers" 429 "Too many subscribers" RETRY,
    Internal "internal" 500 "The coordinator has a fault" RETRY,
    AuditUnavailable "audit-unavailable" 503 "The audit log cannot keep the line of the call" RETRY,
    StoreUnavailable "store-unavailable" 503 "The store is unavailable" RETRY,
    StoreFrozen "store-frozen" 503 "The store is frozen" FINAL,
    OrderWaits "order-waits" 503 "Another order is being stored" RETRY,
    HomeUnreachable "home-unreachable" 503 "The lease's home node cannot be reached" RETRY,
    NodeLapsed "node-lapsed" 503 "The node may not promise for now" RETRY,
    Draining "draining" 503 "The coordinator accepts no work" RETRY,
    KeyResting "key-resting" 503 "The key is resting" RETRY,
    RecordQuarantined "record-quarantined" 503 "The key's record is quarantined" FINAL,
    TooManyBodies "too-many-bodies" 503 "There is no room for the body" RETRY,
    TooManyConnections "too-many-connections" 503 "There are too many connections" RETRY,
    Overloaded "overloaded" 503 "The coordinator is overloaded" RETRY,
    StoreFull "store-full" 507 "The store is full" RETRY,
    TooManyKeys "too-many-keys" 507 "There are too many keys" FINAL,
}

impl Code {
    /// The code as it appears in problem documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// The HTTP status of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// The kind of problem in a few words, for people. A problem may have a title of its own that says more.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        self.row().retryable
    }

    /// The code with this name; `None` if this version does not know it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own_and_a_status_of_a_refusal() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::named(code.as_str()), Some(*code));
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
        assert_eq!(Code::named("of-a-later-time"), None);
    }
}
