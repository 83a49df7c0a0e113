//! All principals of a file, found by their credentials.

use std::sync::Arc;

#[cfg(feature = "jwt")]
use super::jwt::{Issuer, Issuers, JwtFault, JwtProof};
#[cfg(not(feature = "jwt"))]
use super::jwt_absent::{Issuer, Issuers, JwtFault, JwtProof};
use super::{
    allowance::Allowance,
    certificates::{CertificateNames, Certificates},
    principal::Principal,
    token::{PREFIX, TokenDigest},
};
use crate::clock::HashMap;

/// Who shows a token or a JWT.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    /// Whose it is.
    pub principal: &'a Arc<Principal>,
    /// What was verified of a JWT; `None` for a token.
    pub jwt: Option<JwtProof>,
    /// The digest by which it is revoked.
    pub digest: TokenDigest,
}

/// The principals of one file that was read and has no fault.
#[derive(Clone, Debug, Default)]
pub struct Access {
    principals: Box<[Arc<Principal>]>,
    by_name: HashMap<Arc<str>, usize>,
    by_token: HashMap<TokenDigest, usize>,
    by_uid: HashMap<u32, usize>,
    certificates: Certificates,
    issuers: Issuers,
    pub(super) warnings: Vec<String>,
}

impl Access {
    /// No two principals have a name or a credential in common.
    pub(super) fn new(principals: Vec<Principal>, issuers: Vec<Issuer>) -> Self {
        let principals: Box<[_]> = principals.into_iter().map(Arc::new).collect();
        let all = || principals.iter().enumerate();
        let subjects: Vec<_> = all()
            .flat_map(|(at, one)| one.subjects().iter().map(move |subject| (at, subject)))
            .collect();
        Self {
            issuers: Issuers::new(issuers, &subjects),
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

    /// The principal that shows this as a bearer, be it a token or a JWT, and `None` if it is nobody's token. A JWT that was
    /// not verified before is verified if the allowance allows that.
    ///
    /// # Errors
    /// Why it is nobody's JWT, for the log.
    pub fn by_bearer(
        &self,
        shown: &str,
        now_ms: u64,
        allowance: &dyn Allowance,
    ) -> Result<Option<Shown<'_>>, JwtFault> {
        let digest = TokenDigest::of(shown);
        if let Some(principal) = self.at(self.by_token.get(&digest)) {
            return Ok(Some(Shown { principal, jwt: None, digest }));
        }
        let dots = || shown.bytes().filter(|byte| *byte == b'.').count();
        if shown.starts_with(PREFIX) || dots() != 2 {
            return Ok(None);
        }
        let (at, proof) = self.issuers.judge(shown, digest, now_ms, allowance)?;
        let digest = TokenDigest::of_credential(shown).unwrap_or(digest);
        Ok(self.at(Some(&at)).map(|principal| Shown { principal, jwt: Some(proof), digest }))
    }

    /// The principal that a JWT is of which was verified before, perhaps for an earlier reading of the file. None, if
    /// its key or its issuer is no longer in the file.
    #[must_use]
    pub fn by_proof(&self, proof: &JwtProof) -> Option<&Arc<Principal>> {
        self.at(self.issuers.find(proof).as_ref())
    }

    /// The principal that a verified certificate with these alternative names is of. None, if the names are of several
    /// principals. Of several URIs, none counts.
    #[must_use]
    pub fn by_certificate(&self, names: &CertificateNames) -> Option<&Arc<Principal>> {
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

    /// The warnings of the reading: parts of the file that are valid, and may not be as their author meant them.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the file says, in a form that does not depend on the order of its entries, on spaces or on comments.
    #[must_use]
    pub fn content(&self) -> String {
        let mut all: Vec<String> = self.principals.iter().map(ToString::to_string).collect();
        all.sort_unstable();
        let mut issuers = self.issuers.content();
        issuers.sort_unstable();
        all.append(&mut issuers);
        all.join("\n")
    }

    #[cfg(all(test, feature = "jwt"))]
    pub(super) fn issuers(&self) -> &Issuers {
        &self.issuers
    }

    fn at(&self, at: Option<&usize>) -> Option<&Arc<Principal>> {
        at.and_then(|at| self.principals.get(*at))
    }
}
