extends "res://suite.gd"
## Text of every script, and answers under a schema.

const QUEST := {
	"type": "object",
	"properties": {
		"title": {"type": "string", "maxLength": 30},
		"reward": {"type": "integer", "minimum": 1, "maximum": 100},
		"danger": {"enum": ["low", "high"]},
	},
	"required": ["title", "reward", "danger"],
	"additionalProperties": false,
}


func _under_schema(schema: Dictionary) -> Dictionary:
	return {
		"max_tokens": 120,
		"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
	}


func test_a_schema_answer_can_be_parsed() -> void:
	var response: Dictionary = await atelico.chat(body("A quest, please.", _under_schema(QUEST))).finished()
	var quest: Variant = JSON.parse_string(content(response))
	check(quest is Dictionary, "not a Dictionary: %s" % content(response))
	if quest is Dictionary:
		check_equal(quest.keys(), ["title", "reward", "danger"], "the keys")
		check(quest.reward >= 1 and quest.reward <= 100 and quest.danger in ["low", "high"], str(quest))


func test_emoji_and_cyrillic_come_back_whole() -> void:
	for text: String in ["Привет, путник! 🐉👨‍👩‍👧", "日本語と العربية", "quote \" back\\slash \t tab", "a\u0301 é ﷽ 🇫🇷"]:
		var schema := {"type": "object", "properties": {"said": {"const": text}}, "required": ["said"]}
		var pieces := PackedStringArray()
		var request := atelico.chat(body(text, _under_schema(schema)))
		request.delta.connect(func(piece: String) -> void: pieces.append(piece))
		var response: Dictionary = await request.finished()
		var said: Variant = JSON.parse_string("".join(pieces))
		check_equal(said.said if said is Dictionary else content(response), text, "the text")


func test_names_of_a_schema_may_be_of_any_script() -> void:
	var schema := {"type": "object", "properties": {"имя": {"enum": ["Лев"]}}, "required": ["имя"]}
	var response: Dictionary = await atelico.chat(body("Имя?", _under_schema(schema))).finished()
	check_equal(JSON.parse_string(content(response)), {"имя": "Лев"}, "the answer")
