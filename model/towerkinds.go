package model

// towerKinds are the architectures whose towers are known, by what builds them.
var towerKinds = map[string]func(*towers){
	"Qwen2VLForConditionalGeneration":           qwen2VLTower,
	"Qwen2_5_VLForConditionalGeneration":        qwen25VLTower,
	"Qwen3VLForConditionalGeneration":           qwen3VLTower,
	"Qwen3VLMoeForConditionalGeneration":        qwen3VLTower,
	"Qwen3_5ForConditionalGeneration":           qwen3VLTower,
	"Qwen3_5MoeForConditionalGeneration":        qwen3VLTower,
	"Gemma3ForConditionalGeneration":            gemma3Tower,
	"LlavaForConditionalGeneration":             llavaTower,
	"LlavaNextVideoForConditionalGeneration":    llavaNextVideoTower,
	"LlavaOnevisionForConditionalGeneration":    llavaOnevisionTower,
	"Mistral3ForConditionalGeneration":          mistral3Tower,
	"LightOnOCRForConditionalGeneration":        mistral3Tower,
	"Idefics3ForConditionalGeneration":          idefics3Tower,
	"SmolVLMForConditionalGeneration":           idefics3Tower,
	"Lfm2VlForConditionalGeneration":            lfm2VLTower,
	"Cohere2VisionForConditionalGeneration":     cohere2VisionTower,
	"Llama4ForConditionalGeneration":            llama4Tower,
	"KimiK25ForConditionalGeneration":           kimiTower,
	"KimiK3ForConditionalGeneration":            kimiK3Tower,
	"Glm4vForConditionalGeneration":             glm4vTower,
	"Glm4vMoeForConditionalGeneration":          glm4vTower,
	"GlmOcrForConditionalGeneration":            glmOCRTower,
	"InternVLForConditionalGeneration":          internS1Tower,
	"InternS1ForConditionalGeneration":          internS1Tower,
	"Ovis":                                      ovisTower,
	"Phi3VForCausalLM":                          phi3VTower,
	"Exaone4_5_ForConditionalGeneration":        exaone45Tower,
	"PaddleOCRVLForConditionalGeneration":       paddleOCRTower,
	"MuseGlimmerForConditionalGeneration":       museGlimmerTower,
	"MiniCPMV4_6ForConditionalGeneration":       miniCPMV46Tower,
	"ColPaliForRetrieval":                       colPaliTower,
	"MolmoForCausalLM":                          molmoTower,
	"Qwen2AudioForConditionalGeneration":        qwen2AudioTower,
	"Qwen2_5OmniModel":                          qwen25OmniTower,
	"Qwen2_5OmniForConditionalGeneration":       qwen25OmniTower,
	"Qwen3ASRForConditionalGeneration":          qwen3ASRTower,
	"GlmAsrForConditionalGeneration":            glmASRTower,
	"GraniteSpeechForConditionalGeneration":     graniteSpeechTower,
	"GraniteSpeechPlusForConditionalGeneration": graniteSpeechTower,
	"Gemma4ForConditionalGeneration":            gemma4Tower,
	"DeepseekVLV2ForCausalLM":                   deepSeekVL2Tower,
	"ColModernVBertForRetrieval":                colModernVBertTower,
	"VideoLlavaForConditionalGeneration":        videoLlavaTower,
	"DeepseekVLForConditionalGeneration":        deepSeekVLTower,
	"DeepseekVLHybridForConditionalGeneration":  deepSeekVLHybridTower,
	"GotOcr2ForConditionalGeneration":           gotOCR2Tower,
	"AyaVisionForConditionalGeneration":         ayaVisionTower,
	"VideoLlama3ForConditionalGeneration":       videoLlama3Tower,
	"FuyuForCausalLM":                           fuyuTower,
	"GlmImageForConditionalGeneration":          glmImageTower,
	"Ovis2ForConditionalGeneration":             ovis2Tower,
	"InstructBlipForConditionalGeneration":      instructBlipTower,
	"AriaForConditionalGeneration":              ariaTower,
	"MiniMaxM3SparseForConditionalGeneration":   minimaxM3Tower,
	"CLIPModel":                             clipTower,
	"Qwen4ExpForConditionalGeneration":      qwen3VLTower,
	"DeepseekV41ForCausalLM":                deepSeekV41Tower,
	"Cosmos3EdgeForConditionalGeneration":   cosmos3EdgeTower,
	"SiglipModel":                           siglipTower,
	"CohereCompassForConditionalGeneration": qwen3VLTower,
	"Glm5NextForConditionalGeneration":      glm5NextTower,
	"InklingForConditionalGeneration":       inklingTower,
	"D3ForSequenceClassification":           qwen3VLTower,
	"ClefFlashForJointSchema":               clefFlashTower,
	"RForConditionalGeneration":             rvlTower,
}

// towerTypes are the same by model_type, of files that name no architecture.
var towerTypes = map[string]func(*towers){
	"deepseek_vl_v2": deepSeekVL2Tower,
	"colmodernvbert": colModernVBertTower,
}

// towerOf is what builds a checkpoint's towers, nil where that is not known.
func towerOf(arch string, c *Config) func(*towers) {
	if build := towerKinds[arch]; build != nil {
		return build
	}
	return towerTypes[c.Top().ModelType()]
}
