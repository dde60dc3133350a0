extends Control
## An innkeeper who streams his answers, and gives quests as data.

const QUEST := {
	"type": "object",
	"properties": {
		"title": {"type": "string", "minLength": 5, "maxLength": 40},
		"place": {"enum": ["the cellar", "the harbour", "the old mill"]},
		"enemy": {"enum": ["rats", "smugglers", "a ghost"]},
		"reward": {"type": "integer", "minimum": 5, "maximum": 50},
	},
	"required": ["title", "place", "enemy", "reward"],
	"additionalProperties": false,
}

@onready var innkeeper: AtelicoChat = $Innkeeper
@onready var talk: RichTextLabel = $Box/Talk
@onready var line: LineEdit = $Box/Row/Line
@onready var quest_button: Button = $Box/Row/Quest


func _ready() -> void:
	atelico.load_model(innkeeper.model)
	innkeeper.started.connect(func() -> void: talk.append_text("[b]Bram:[/b] "))
	innkeeper.delta.connect(func(text: String) -> void: talk.add_text(text))
	innkeeper.finished.connect(func(_text: String, _response: Dictionary) -> void: talk.newline())
	innkeeper.failed.connect(func(error: Dictionary) -> void: _say("", str(error.error.message)))
	line.text_submitted.connect(ask)
	quest_button.pressed.connect(ask_for_work)
	line.grab_focus()


func ask(text: String) -> void:
	if innkeeper.is_busy() or text.strip_edges() == "":
		return
	line.clear()
	_say("You", text)
	innkeeper.ask(text)


## A quest under a schema: whatever the model writes, it can be parsed and has these keys.
func ask_for_work() -> void:
	quest_button.disabled = true
	_say("You", "Have you got work for me?")
	var result: Dictionary = await atelico.chat({
		"model": innkeeper.model,
		"messages": [
			{"role": "system", "content": innkeeper.system_prompt},
			{"role": "user", "content": "Invent a quest for a traveller."},
		],
		"response_format": {"type": "json_schema", "json_schema": {"name": "quest", "schema": QUEST, "strict": true}},
		"speculative": {"proposer": "auto"},
		"temperature": 0.7,
		"seed": 11,
		"max_tokens": 120,
	}).finished()
	quest_button.disabled = false
	if result.has("error"):
		_say("", result.error.message)
		return
	var quest: Dictionary = JSON.parse_string(result.choices[0].message.content)
	_say("Bram", "Beware of %s in %s. Will you help?" % [quest.enemy, quest.place])
	_say("Quest", "%s (%d coins)" % [quest.title, quest.reward])


func _say(who: String, what: String) -> void:
	if who != "":
		talk.append_text("[b]%s:[/b] " % who)
	talk.add_text(what)
	talk.newline()
