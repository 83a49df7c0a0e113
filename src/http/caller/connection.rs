//! Whose connection a connection is: that of the principal of its last call.
//!
//! Guarantees: a connection counts for one principal at a time, from its first call until it is closed. What it
//! remembers of that principal is told only to a call that shows the same, and compared in constant time.
//!
//! Does not guarantee: a limit over several nodes; that connections are closed when a reload lowers the limit.
//!
//! Assumes: the connection owns its [`Belongs`], and all its calls are served on one thread.

use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::Arc,
};

use subtle::ConstantTimeEq as _;

use super::{
    rate::Cell as RateCell,
    reading::Known,
    usage::{InUse, Kind, Usage},
};
use crate::access::Principal;

/// The principal whose connection it is, if a call has shown one.
#[derive(Default)]
pub struct Belongs {
    tenant: RefCell<Option<Tenant>>,
    /// Whether a call has shown a JWT that had to be verified.
    has_verified: Cell<bool>,
    /// The cell to which wrong signatures are charged while the connection is a principal's.
    forgeries: OnceCell<Arc<RateCell>>,
}

/// In the extensions of a request: its connection ends with the answer.
pub struct Ends;

struct Tenant {
    principal: Arc<Principal>,
    usage: Arc<Usage>,
    _in_use: InUse,
    judged: Option<Judged>,
}

/// A judgement for later calls.
struct Judged {
    /// The `Authorization` of the call that was judged.
    shown: Option<Box<[u8]>>,
    known: Arc<Known>,
}

impl Belongs {
    /// What the principal uses, if the connection is counted as its own. This takes no lock.
    pub fn usage_of(&self, principal: &Arc<Principal>) -> Option<Arc<Usage>> {
        let tenant = self.tenant.borrow();
        let own = tenant.as_ref().filter(|tenant| Arc::ptr_eq(&tenant.principal, principal));
        own.map(|tenant| tenant.usage.clone())
    }

    /// Counts the connection as the principal's, and no longer as that of another one.
    ///
    /// # Errors
    /// The limit, if the principal has as many already. The connection is then counted as before.
    pub fn count_for(&self, principal: &Arc<Principal>, usage: &Arc<Usage>) -> Result<(), u32> {
        let mut tenant = self.tenant.borrow_mut();
        match &mut *tenant {
            // The access file was read again.
            Some(tenant) if Arc::ptr_eq(&tenant.usage, usage) => {
                tenant.principal = principal.clone();
                tenant.judged = None;
            }
            tenant => {
                let in_use = InUse::one_more(usage, principal, Kind::Connections)?;
                let (principal, usage) = (principal.clone(), usage.clone());
                *tenant = Some(Tenant { principal, usage, _in_use: in_use, judged: None });
            }
        }
        Ok(())
    }

    /// Whether the connection is a principal's.
    pub fn is_known(&self) -> bool {
        self.tenant.borrow().is_some()
    }

    /// Whether this is the first JWT of the connection that has to be verified.
    pub fn verifies_first(&self) -> bool {
        !self.has_verified.replace(true)
    }

    /// The connection's own cell for wrong signatures.
    pub fn forgeries(&self, make: impl FnOnce() -> Arc<RateCell>) -> Arc<RateCell> {
        self.forgeries.get_or_init(make).clone()
    }

    /// Remembers who a call is of that shows this, if the connection is counted as that principal's.
    pub fn remember(&self, shown: Option<&[u8]>, known: &Arc<Known>) {
        let mut tenant = self.tenant.borrow_mut();
        if let Some(tenant) = tenant.as_mut()
            && Arc::ptr_eq(&tenant.principal, &known.principal)
        {
            tenant.judged = Some(Judged { shown: shown.map(Box::from), known: known.clone() });
        }
    }

    /// Who a call is of that shows this, if the last call that was remembered showed the same.
    pub fn remembered(&self, shown: Option<&[u8]>) -> Option<Arc<Known>> {
        let tenant = self.tenant.borrow();
        let judged = tenant.as_ref()?.judged.as_ref()?;
        let is_same = match (shown, &judged.shown) {
            (None, None) => true,
            (Some(now), Some(then)) => now.ct_eq(then).into(),
            _ => false,
        };
        is_same.then(|| judged.known.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{access::Access, http::caller::usage::Usages};

    /// A principal of the file with at most so many connections.
    fn principal(name: &str, connections: u32) -> Arc<Principal> {
        let file = format!(
            "[[principal]]\nname = \"{name}\"\nuid = [1]\nmay = [{{ verb = \"observe\" }}]\n\
             limit = {{ connections = {connections} }}\n"
        );
        let access = Access::parse(Path::new("f"), &file, 0).expect("a file");
        access.by_name(name).expect("the principal").clone()
    }

    #[test]
    fn a_connection_counts_for_the_principal_of_its_last_call_until_it_is_closed() {
        let usages = Usages::default();
        let (one, other) = (principal("one", 1), principal("other", 1));
        let count = |belongs: &Belongs, principal: &Arc<Principal>| {
            belongs.count_for(principal, &usages.of(&principal.name))
        };
        let (first, second) = (Belongs::default(), Belongs::default());
        assert_eq!(count(&first, &one), Ok(()));
        assert!(first.usage_of(&one).is_some() && first.usage_of(&other).is_none());
        assert_eq!(count(&second, &one), Err(1));
        assert_eq!(count(&first, &one), Ok(()));
        assert_eq!(count(&second, &other), Ok(()));
        assert_eq!(count(&first, &other), Err(1));
        assert!(first.usage_of(&one).is_some(), "it is still counted as before");
        // The file was read again, and allows two.
        let again = principal("other", 2);
        assert!(second.usage_of(&again).is_none());
        assert_eq!((count(&second, &again), count(&first, &again)), (Ok(()), Ok(())));
        assert!(second.usage_of(&again).is_some());
        assert_eq!(count(&Belongs::default(), &one), Ok(()), "the first is the other's now");
        drop(second);
        assert_eq!(count(&Belongs::default(), &other), Err(1), "one is left, as many as it may");
        drop(first);
        assert_eq!(count(&Belongs::default(), &other), Ok(()));
    }
}
