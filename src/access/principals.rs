//! All principals of a file, found by their credentials.

use std::sync::Arc;

use super::{certificates::Certificates, principal::Principal, token::TokenDigest};
use crate::clock::HashMap;

/// The principals of one file that was read and has no fault.
#[derive(Clone, Debug, Default)]
pub struct Access {
    principals: Box<[Arc<Principal>]>,
    by_name: HashMap<Arc<str>, usize>,
    by_token: HashMap<TokenDigest, usize>,
    by_uid: HashMap<u32, usize>,
    certificates: Certificates,
    pub(super) warnings: Vec<String>,
}

impl Access {
    /// No two principals have a name or a credential in common.
    pub(super) fn new(principals: Vec<Principal>) -> Self {
        let principals: Box<[_]> = principals.into_iter().map(Arc::new).collect();
        let all = || principals.iter().enumerate();
        Self {
            by_name: all().map(|(at, one)| (Arc::clone(&one.name), at)).collect(),
            by_token: all()
                .flat_map(|(at, one)| one.tokens().iter().map(move |digest| (*digest, at)))
                .collect(),
            by_uid: all()
                .flat_map(|(at, one)| one.uids().iter().map(move |uid| (*uid, at)))
                .collect(),
            certificates: Certificates::new(
                all().flat_map(|(at, one)| one.certificates().iter().map(move |name| (at, name))),
            ),
            warnings: Vec::new(),
            principals,
        }
    }

    /// The principal that has this token. The token is hashed before anything is compared.
    #[must_use]
    pub fn by_token(&self, token: &str) -> Option<&Arc<Principal>> {
        self.at(self.by_token.get(&TokenDigest::of(token)))
    }

    /// The principal that a verified certificate with these names (URIs and DNS names of its subject alternative name)
    /// is of. None, if the names are of several principals.
    #[must_use]
    pub fn by_certificate(&self, names: &[String]) -> Option<&Arc<Principal>> {
        self.at(self.certificates.find(names).as_ref())
    }

    /// The principal that the processes of this user are.
    #[must_use]
    pub fn by_uid(&self, uid: u32) -> Option<&Arc<Principal>> {
        self.at(self.by_uid.get(&uid))
    }

    /// The principal with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Arc<Principal>> {
        self.at(self.by_name.get(name))
    }

    /// All principals, in the order of the file.
    #[must_use]
    pub fn principals(&self) -> &[Arc<Principal>] {
        &self.principals
    }

    /// What was noticed when the file was read: it is valid, and somebody should look at it.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn at(&self, at: Option<&usize>) -> Option<&Arc<Principal>> {
        at.and_then(|at| self.principals.get(*at))
    }
}
