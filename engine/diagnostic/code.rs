//! The stable codes of diagnostics, and what `mozaiks-run explain` says of each.

/// What `explain` prints: one section a code, checked by tests.
const EXPLANATIONS: &str = include_str!("codes.md");

macro_rules! codes {
    ($($variant:ident $code:literal $title:literal)+) => {
        /// A kind of mistake. The number never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant),+
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant),+];

            /// As printed: `MZ` and three digits.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code),+ }
            }

            /// What kind of mistake it is, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),+ }
            }
        }
    };
}

codes! {
    // A file cannot be read.
    Unreadable "MZ101" "a file cannot be read"
    NotUtf8 "MZ102" "a file is not UTF-8"
    YamlSyntax "MZ103" "a file is not YAML"
    DuplicateKey "MZ104" "a key stands twice"
    TabIndent "MZ105" "a tab indents a line"
    ManyDocuments "MZ106" "a file holds several documents"
    TooLarge "MZ107" "a file holds too much"
    NotJson "MZ108" "a text is not JSON"
    // A file does not have the shape of its kind.
    UnknownKey "MZ201" "an unknown key"
    MissingKey "MZ202" "a key is missing"
    WrongType "MZ203" "a value of the wrong type"
    NotAllowed "MZ204" "a value that is not one of those allowed"
    OutOfBounds "MZ205" "a number or length out of bounds"
    Blank "MZ206" "a text is blank or malformed"
    Rule "MZ207" "keys that do not go together"
    NotActedOn "MZ208" "accepted, but not acted on"
    // The files of a workflow do not fit together.
    NoWorkflow "MZ301" "no such workflow"
    UnknownAgent "MZ302" "an agent that no file defines"
    DuplicateName "MZ303" "a name stands twice"
    UndeclaredVariable "MZ304" "a variable that is not declared"
    KeyClash "MZ305" "two writers of one context key"
    UnreachedTrigger "MZ306" "a trigger the transition graph never reaches"
    UnhandledStatus "MZ307" "a batch status without a transition"
    MissingPiece "MZ308" "a piece of a runnable batch is missing"
    UnknownType "MZ309" "a type or model that does not exist"
    NoSuchPath "MZ310" "a path that leads nowhere"
    Expression "MZ311" "an expression that does not parse"
    NameMismatch "MZ312" "a name differs from its folder or file"
    Template "MZ313" "a template that does not compile"
    MissingFile "MZ314" "a file that another one names is missing"
    UnknownTool "MZ315" "a tool that an agent does not have"
    MissingProgram "MZ316" "a program that is not there"
    PythonSyntax "MZ317" "a Python file that does not compile"
    UnknownProvider "MZ320" "a provider that no file defines"
    NoPrice "MZ321" "a budget in money, and a model without a price"
    ShortKey "MZ322" "a key too short to be hidden"
    // A plan cannot be accepted.
    NoPlan "MZ401" "no task list where the batch looks for it"
    NotATask "MZ402" "an item that is not a task"
    BadTaskId "MZ403" "a task id that cannot be used"
    DuplicateTask "MZ404" "a task id stands twice"
    UnknownDependency "MZ405" "a dependency on no task"
    Cycle "MZ406" "tasks that wait for each other"
    AgentNotAllowed "MZ407" "an agent outside the allow-list"
    NoPrompt "MZ408" "a task without a prompt"
    BadOwnedPath "MZ409" "an owned path that cannot be used"
    NoOwnedPath "MZ410" "a task that owns no path"
    OwnedTwice "MZ411" "two tasks own one path"
    PlanTooLarge "MZ412" "a plan beyond the limits"
    BadTaskField "MZ413" "a task's field of the wrong type"
    // A DAG cannot be accepted.
    NoEdge "MZ414" "an input without an edge"
    BadField "MZ415" "a field that cannot be read"
    NotServed "MZ416" "a capability that nobody serves"
    DuplicateEdge "MZ417" "an edge stands twice"
    Price "MZ418" "a price beyond its ceiling"
    // What a run was given.
    BadInput "MZ501" "an input that cannot be used"
    NoKey "MZ502" "no key for a model"
    Exists "MZ503" "something is in the way"
    Unwritable "MZ504" "a place that cannot be written"
    // A run is to go on.
    NoRun "MZ601" "no such run"
    RunIsOver "MZ602" "a run that has come to its end"
    FilesChanged "MZ603" "a file has changed since the run began"
    InFlight "MZ604" "an attempt that was under way"
    NotRecorded "MZ605" "a question that is not in the recording"
}

impl Code {
    /// The code written so, in any case.
    pub fn parse(text: &str) -> Option<Code> {
        let named = |it: &&Code| it.as_str().eq_ignore_ascii_case(text.trim());
        Code::ALL.iter().find(named).copied()
    }

    /// Cause, cure and example, as Markdown.
    pub fn explanation(self) -> &'static str {
        let heading = format!("## {} ", self.as_str());
        let start = EXPLANATIONS.find(&heading);
        let start = start.expect("a test checks that every code has a section");
        let section = &EXPLANATIONS[start..];
        let end = section[3..]
            .find("\n## ")
            .map_or(section.len(), |it| it + 3);
        section[..end].trim_end()
    }
}
