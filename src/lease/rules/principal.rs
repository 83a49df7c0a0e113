//! R12: principals.

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::{LeaseId, Owner, PrincipalDigest};

impl Rules {
    /// R12: only the principal of a tenure acts for it. Whoever proves a tenure without a principal acts for it.
    #[must_use]
    pub fn a_principal_acts(
        self,
        of: Option<PrincipalDigest>,
        caller: Option<PrincipalDigest>,
    ) -> bool {
        of.is_none() || of == caller || self.breaks(Mutant::AnyPrincipalActs)
    }

    /// R12: whether the caller is the worker of this name.
    #[must_use]
    pub fn is_owner(self, owner: &Owner, caller: &Owner) -> bool {
        owner.has_name_of(caller)
            && self.a_principal_acts(owner.principal_digest(), caller.principal_digest())
    }

    /// R12: whether a lease id that a caller shows is that of the tenure.
    #[must_use]
    pub fn proves(self, own: LeaseId, shown: LeaseId) -> bool {
        own == shown && self.a_principal_acts(own.principal(), shown.principal())
    }
}
