//! What a run, and a batch in it, may still spend.
//!
//! **Invariant:** a pure ledger: a call is reserved before it is made and settled when it has ended, and there is one
//! ledger for all that run side by side.
//! **Invariant:** no call is granted that, as far as it was estimated, could go beyond a limit. So what is spent is
//! above a limit by no more than what calls under way used above their estimates. Where nobody can estimate, it is
//! settled afterwards, and no call is granted once the limit is reached.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::usage::{Cost, Usage};

/// How much of something: of what is reserved, or spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub tokens: u64,
    pub cost: Cost,
    pub cu: Cost,
}

impl Amount {
    pub fn of(used: Usage) -> Amount {
        Amount {
            tokens: used.tokens(),
            cost: used.cost.unwrap_or_default(),
            cu: used.cu.unwrap_or_default(),
        }
    }

    fn plus(self, more: Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_add(more.tokens),
            cost: self.cost.plus(more.cost),
            cu: self.cu.plus(more.cu),
        }
    }

    fn minus(self, less: Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_sub(less.tokens),
            cost: self.cost.minus(less.cost),
            cu: self.cu.minus(less.cu),
        }
    }
}

/// The most that may be spent. What is not said has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub tokens: Option<u64>,
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cu: Option<Cost>,
}

impl Limit {
    pub fn is_none(self) -> bool {
        self == Limit::default()
    }

    /// With what another one says where this one says nothing.
    pub fn or(self, other: Limit) -> Limit {
        Limit {
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            cu: self.cu.or(other.cu),
        }
    }

    /// With what another one says where that is more.
    pub fn at_least(self, other: Limit) -> Limit {
        Limit {
            tokens: self.tokens.map(|it| it.max(other.tokens.unwrap_or(it))),
            cost: self.cost.map(|it| it.max(other.cost.unwrap_or(it))),
            cu: self.cu.map(|it| it.max(other.cu.unwrap_or(it))),
        }
    }

    /// Of what there is not enough for so much more. Where nothing is left there is not, however little it may be; but
    /// what a task may cost in CU may be known, and so is then that it may cost nothing. Where it is not, it costs
    /// [`Cost::LEAST`] at least.
    fn exceeded(self, spent: Amount, more: Amount) -> Option<What> {
        let all = spent.plus(more);
        let tokens = self
            .tokens
            .is_some_and(|it| spent.tokens >= it || all.tokens > it);
        let cost = self
            .cost
            .is_some_and(|it| spent.cost >= it || all.cost > it);
        let cu = self.cu.is_some_and(|it| all.cu > it);
        match (tokens, cost, cu) {
            (true, ..) => Some(What::Tokens),
            (_, true, _) => Some(What::Cost),
            (.., true) => Some(What::Cu),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Tokens,
    Cost,
    Cu,
}

/// Whether a call may be made.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Go(Hold),
    /// Perhaps when a call under way has ended, and used less than it might have.
    Wait,
    /// No more, and neither may any other.
    Never,
}

impl Hold {
    pub fn share(&self) -> Share {
        self.0
    }
}

/// What is reserved for a call under way. It is to be given back with [`Ledger::settle`].
#[derive(Debug, PartialEq, Eq)]
pub struct Hold(Share);

/// How much is reserved for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    amount: Amount,
    /// The batch that it was made in.
    batch: Option<u64>,
}

/// How near a budget is to its end, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The accounts of a run and of the batch that is under way.
#[derive(Debug, Default)]
pub struct Ledger {
    run: Account,
    batch: Option<(u64, Account)>,
    batches: u64,
    reached: Option<Message>,
}

#[derive(Debug, Default)]
struct Account {
    /// `the run`, or a batch by its name.
    whose: String,
    limit: Limit,
    spent: Amount,
    reserved: Amount,
    /// That it is near its end, as it was when that became so. Taken when somebody was told.
    warning: Option<Message>,
    has_warned: bool,
}

/// From this part on somebody is warned, in percent.
const NEAR: u64 = 80;

impl Ledger {
    /// For a run that may spend so much, all its sessions together.
    pub fn new(limit: Limit, spent: Amount) -> Ledger {
        Ledger {
            run: Account::new("the run".to_owned(), limit, spent),
            ..Ledger::default()
        }
    }

    /// Another batch begins, or goes on, for which so much was spent before.
    pub fn begin_batch(&mut self, id: &str, limit: Limit, spent: Amount) {
        self.batches += 1;
        let account = Account::new(format!("batch `{id}`"), limit, spent);
        self.batch = Some((self.batches, account));
    }

    pub fn end_batch(&mut self) {
        self.batch = None;
    }

    /// Whether tokens or money have a limit.
    pub fn is_limited(&self) -> bool {
        let has_one = |it: &Account| it.limit.tokens.is_some() || it.limit.cost.is_some();
        self.accounts().any(has_one)
    }

    /// Whether CU have one.
    pub fn is_limited_in_cu(&self) -> bool {
        self.accounts().any(|it| it.limit.cu.is_some())
    }

    /// Asks for a call that may use so much.
    pub fn reserve(&mut self, amount: Amount) -> Answer {
        if self.reached.is_some() {
            return Answer::Never;
        }
        let refused = self.accounts().find_map(|it| it.refuses(amount));
        if refused.is_some() {
            self.reached = refused;
            return Answer::Never;
        }
        let is_tight = |it: &Account| {
            let all = it.spent.plus(it.reserved);
            it.limit.exceeded(all, amount).is_some()
        };
        if self.accounts().any(is_tight) {
            return Answer::Wait;
        }
        let accounts = self.accounts_mut();
        accounts.for_each(|it| it.reserved = it.reserved.plus(amount));
        let batch = self.batch.as_ref().map(|it| it.0);
        Answer::Go(Hold(Share { amount, batch }))
    }

    /// Whose budget cannot bear a call that has such a share and has used so much: not even half of it is left.
    pub fn is_far_beyond(&self, share: Share, used: Amount) -> Option<&str> {
        let batch = self.batch.iter();
        let batch = batch.filter(|(number, _)| Some(*number) == share.batch);
        let mut accounts = batch.map(|(_, account)| account).chain([&self.run]);
        let account = accounts.find(|it| it.is_far_beyond(share.amount, used));
        account.map(|it| &*it.whose)
    }

    /// A call has ended, and used so much.
    pub fn settle(&mut self, Hold(share): Hold, used: Amount) {
        let batch = self.batch.iter_mut();
        let batch = batch.filter(|(number, _)| Some(*number) == share.batch);
        let batch = batch.map(|(_, account)| account);
        for account in batch.chain([&mut self.run]) {
            account.reserved = account.reserved.minus(share.amount);
            account.spent = account.spent.plus(used);
            account.note_warning();
        }
    }

    /// Why no call may be made any more.
    pub fn reached(&self) -> Option<&Message> {
        self.reached.as_ref()
    }

    /// What is near its end, told once.
    pub fn warnings(&mut self) -> Vec<Message> {
        let accounts = self.accounts_mut();
        accounts.filter_map(|it| it.warning.take()).collect()
    }

    fn accounts(&self) -> impl Iterator<Item = &Account> {
        let batch = self.batch.iter().map(|(_, account)| account);
        batch.chain([&self.run])
    }

    fn accounts_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        let batch = self.batch.iter_mut().map(|(_, account)| account);
        batch.chain([&mut self.run])
    }
}

impl Account {
    fn new(whose: String, limit: Limit, spent: Amount) -> Account {
        let mut account = Account {
            whose,
            limit,
            spent,
            ..Account::default()
        };
        account.note_warning();
        account
    }

    /// Why a call of so much can never be made.
    fn refuses(&self, amount: Amount) -> Option<Message> {
        let what = self.limit.exceeded(self.spent, amount)?;
        let used = self.used(what);
        let next = match (what, amount) {
            (What::Tokens, Amount { tokens: 0, .. }) => String::new(),
            (What::Tokens, Amount { tokens, .. }) => {
                format!(", and the next call may use {tokens}")
            }
            (What::Cost, Amount { cost, .. }) if cost == Cost::default() => String::new(),
            (What::Cost, Amount { cost, .. }) => {
                format!(", and the next call may cost {}", cost.amount())
            }
            (What::Cu, Amount { cu, .. }) if cu <= Cost::LEAST => String::new(),
            (What::Cu, Amount { cu, .. }) => {
                format!(", and the next task may cost {}", cu.amount())
            }
        };
        let whose = &self.whose;
        Some(Message(format!(
            "the budget of {whose} is reached: {used}{next}"
        )))
    }

    /// Whether half of what a call used is more than there is left for it.
    fn is_far_beyond(&self, share: Amount, used: Amount) -> bool {
        let others = self.spent.plus(self.reserved.minus(share));
        let tokens = |limit: u64| used.tokens / 2 > limit.saturating_sub(others.tokens);
        let cost =
            |limit: Cost| used.cost > limit.minus(others.cost).plus(limit.minus(others.cost));
        self.limit.tokens.is_some_and(tokens) || self.limit.cost.is_some_and(cost)
    }

    fn note_warning(&mut self) {
        let tokens = self
            .limit
            .tokens
            .filter(|it| u128::from(self.spent.tokens) * 100 >= u128::from(*it) * u128::from(NEAR));
        let cost = self
            .limit
            .cost
            .filter(|it| self.spent.cost.amount() * 100.0 >= it.amount() * NEAR as f64);
        let cu = self
            .limit
            .cu
            .filter(|it| self.spent.cu.amount() * 100.0 >= it.amount() * NEAR as f64);
        let what = match (tokens, cost, cu.filter(|it| *it > Cost::default())) {
            (Some(_), ..) => What::Tokens,
            (_, Some(_), _) => What::Cost,
            (.., Some(_)) => What::Cu,
            _ => return,
        };
        if std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        let (used, whose) = (self.used(what), &self.whose);
        let (spent, limit) = (&self.spent, &self.limit);
        let compared = match what {
            What::Tokens => limit.tokens.map(|it| spent.tokens.cmp(&it)),
            What::Cost => limit.cost.and_then(|it| spent.cost.partial_cmp(&it)),
            What::Cu => limit.cu.and_then(|it| spent.cu.partial_cmp(&it)),
        };
        let how = match compared {
            Some(Ordering::Greater) => "exceeded",
            Some(Ordering::Equal) => "reached",
            _ => "nearly reached",
        };
        let message = format!("the budget of {whose} is {how}: {used}");
        self.warning = Some(Message(message));
    }

    /// How much of what there is was used.
    fn used(&self, what: What) -> String {
        match what {
            What::Tokens => {
                let limit = self.limit.tokens.unwrap_or_default();
                format!("{} of {limit} tokens are used", self.spent.tokens)
            }
            What::Cost => {
                let limit = self.limit.cost.unwrap_or_default().amount();
                format!("{} of {limit} is spent", self.spent.cost.amount())
            }
            What::Cu => {
                let limit = self.limit.cu.unwrap_or_default().amount();
                format!("{} of {limit} CU are spent", self.spent.cu.amount())
            }
        }
    }
}

#[cfg(test)]
mod tests;
